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

/** The first line of what a log has of an end after these lines, and whether all lines follow. */
function explained(lines: readonly string[], how = 'exited with code 1', isKilled = false): string {
  const tail = new StderrTail();
  for (const line of lines) tail.add(line);
  const [first = '', ...rest] = tail.explain(how, isKilled).split('\n');
  assert.deepEqual(rest, lines.length > 1 || isKilled ? lines : []);
  return first.replace(`${how}: `, '');
}

test('the first line of an explanation is the line that tells why', () => {
  assert.equal(explained(['out of weights']), 'out of weights');
  assert.equal(explained(['a warning of another request', 'out of weights']), 'out of weights');
  const traceback = ['Traceback (most recent call last):', '  File "m.py", line 3', 'ValueError: no weights'];
  assert.equal(explained(['a warning', ...traceback]), 'ValueError: no weights');
  const stack = [
    'm.mjs:3',
    '  throw new RangeError("far");',
    'RangeError [ERR_FAR]: far',
    '    at m.mjs:3:9',
    'Node.js v24',
  ];
  assert.equal(explained(stack), 'RangeError [ERR_FAR]: far');
  const crash = [
    'a warning',
    'Fatal Python error: Segmentation fault',
    '',
    'Current thread 0x1 (most recent call first):',
  ];
  assert.equal(explained(crash), 'Fatal Python error: Segmentation fault');
  const heap = ['[7:0x1] 50 ms: Mark-Compact', 'FATAL ERROR: Reached heap limit', '', '<--- Last few GCs --->'];
  assert.equal(explained(heap), 'FATAL ERROR: Reached heap limit');
});

test('a process that was killed has not said why', () => {
  assert.equal(explained(['a warning of another request'], 'was killed by SIGKILL', true), 'was killed by SIGKILL');
});
