/** Lines of what a child writes, however it writes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lines, LONGEST_LINE, shortened } from '../../src/process/lines.ts';

function linesOf(...chunks: string[]): string[] {
  const found: string[] = [];
  const lines = new Lines((line) => found.push(line));
  for (const chunk of chunks) lines.push(chunk);
  lines.end();
  return found;
}

test('the splitter returns whole lines, however the text is cut', () => {
  const text = 'one\n\ntwo\r\nthree\rstill three\nthe last without an end';
  const expected = ['one', '', 'two', 'three\rstill three', 'the last without an end'];
  assert.deepEqual(linesOf(text), expected);
  assert.deepEqual(linesOf(...text), expected);
  assert.deepEqual(linesOf('ended\n'), ['ended']);
  assert.deepEqual(linesOf(), []);
});

test('the splitter truncates an overlong line and returns the next one whole', () => {
  const longest = 'x'.repeat(LONGEST_LINE);
  assert.deepEqual(linesOf(`${longest}\nnext\n`), [longest, 'next']);
  assert.deepEqual(linesOf(`${longest}y\nnext\n`), [`${longest}...`, 'next']);
  assert.equal(shortened(`${longest}yz`), `${longest}...`);
});

test('an endless line takes no more memory than a long one', () => {
  const found: string[] = [];
  const lines = new Lines((line) => found.push(line));
  const before = process.memoryUsage().heapUsed;
  const chunk = 'x'.repeat(65_536);
  for (let chunks = 0; chunks < 4096; chunks += 1) lines.push(chunk);
  assert.ok(process.memoryUsage().heapUsed - before < 64 * 1024 * 1024);
  lines.push('\nnext\n');
  assert.deepEqual(found, [`${'x'.repeat(LONGEST_LINE)}...`, 'next']);
});
