/** The reason in what a child said last. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StderrTail } from '../../src/process/parent/output.ts';

function tailOf(lines: readonly string[]): string {
  const tail = new StderrTail();
  for (const line of lines) tail.add(line);
  return tail.text;
}

test('the tail keeps the last twenty lines without blank ones around them', () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  assert.equal(tailOf(['early', ...lines, '']), lines.slice(-19).join('\n'));
  assert.equal(tailOf(['', 'one', '']), 'one');
  assert.equal(tailOf([]), '');
});

test('the tail keeps the reason of an abort and omits the addresses below it', () => {
  const reason = 'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory';
  const addresses = Array.from({ length: 40 }, (_, index) => `${index}: 0x931db0 [node]`);
  assert.equal(tailOf([reason, '----- Native stack trace -----', '', ...addresses]), reason);
});
