/** Lines of stderr become messages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LineGroups } from '../../src/process/parent/output.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

function messagesOf(...lines: readonly string[]): string[] {
  const found: string[] = [];
  const groups = new LineGroups((message) => found.push(message), new FakeClock());
  for (const line of lines) groups.push(line);
  groups.end();
  return found;
}

const TRACEBACK = [
  'Traceback (most recent call last):',
  '  File "model.py", line 3, in predict',
  '    return 1 / value',
  '           ~~^~~~~~~',
  'ZeroDivisionError: division by zero',
];
const CHAINED = [
  ...TRACEBACK,
  '',
  'During handling of the above exception, another exception occurred:',
  '',
  'Traceback (most recent call last):',
  '  File "model.py", line 5, in predict',
  'ValueError: bad value',
];
const STACK = [
  'Error: no weights',
  '    at load (/models/model.js:3:9)',
  '    at async predict (/models/model.js:9:3) {',
  "  code: 'ENOENT',",
  '  [cause]: Error: gone',
  '      at read (/models/model.js:1:1)',
  '}',
];
const CRASH = [
  'Fatal Python error: Segmentation fault',
  '',
  'Current thread 0x00007f0c (most recent call first):',
  '  File "model.py", line 3 in predict',
  '',
  'Extension modules: numpy.core (total: 1)',
];
const WARNING = ['model.py:7: UserWarning: old model', '  warnings.warn("old model")'];

for (const [name, lines] of Object.entries({ TRACEBACK, CHAINED, STACK, CRASH, WARNING })) {
  test(`the lines of a ${name.toLowerCase()} form one message, between others and twice in a row`, () => {
    const message = lines.join('\n');
    assert.deepEqual(messagesOf('before', ...lines, ...lines, 'after'), ['before', message, message, 'after']);
    assert.deepEqual(messagesOf('before', ...lines, '', 'after'), ['before', message, 'after']);
  });
}

test('unrelated lines are separate messages, empty ones too', () => {
  const lines = ['one', 'two', '', 'three', '}', 'four: {', 'Traceback of nothing'];
  assert.deepEqual(messagesOf(...lines), lines);
  assert.deepEqual(messagesOf('', 'a'), ['', 'a']);
});

test('a message waits only briefly for further lines', () => {
  const clock = new FakeClock();
  const found: string[] = [];
  const groups = new LineGroups((message) => found.push(message), clock);
  groups.push('Error: one');
  groups.push('    at two');
  assert.deepEqual(found, []);
  clock.advance(1000);
  assert.deepEqual(found, ['Error: one\n    at two']);
  assert.equal(clock.pending, 0);
});

test('lines that never end a message come out without growing the buffer', () => {
  const clock = new FakeClock();
  let lines = 0;
  let messages = 0;
  const groups = new LineGroups((message) => {
    messages += 1;
    lines += message.split('\n').length;
  }, clock);
  for (let line = 0; line < 10_000; line += 1) groups.push('  x');
  groups.end();
  assert.equal(lines, 10_000);
  assert.ok(messages >= 100, `${messages} messages`);
});

test('a message ends before more empty lines than it can hold', () => {
  const found: string[] = [];
  const groups = new LineGroups((message) => found.push(message), new FakeClock());
  for (const line of TRACEBACK.slice(0, 2)) groups.push(line);
  for (let line = 0; line < 1_000_000; line += 1) groups.push('');
  groups.push('ValueError: bad value');
  groups.end();
  assert.deepEqual(found, [TRACEBACK.slice(0, 2).join('\n'), 'ValueError: bad value']);
});
