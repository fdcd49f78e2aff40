/** A runtime's log takes records of all levels and gives out those that are wanted, as data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogLevel, LogRecord } from '../../src/core/model.ts';
import { Log } from '../../src/observe/log/log.ts';

const LEVELS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error'];

function logAt(level: LogLevel): { log: Log; records: LogRecord[] } {
  const records: LogRecord[] = [];
  return { log: new Log('main', level, (record) => records.push(record)), records };
}

for (const [index, level] of LEVELS.entries()) {
  test(`at level ${level}, what is less important is left out`, () => {
    const { log, records } = logAt(level);
    for (const written of LEVELS) log.write({ level: written, message: 'hello' });
    assert.deepEqual(
      records.map((record) => record.level),
      LEVELS.slice(index),
    );
  });
}

test('a record comes out as it went in, with the name of the runtime', () => {
  const { log, records } = logAt('info');
  log.write({ level: 'warn', message: 'died', stage: 'digits', worker: 0, fields: { pid: 12, cause: 'SIGKILL' } });
  log.write({ level: 'info', message: 'engine ready' });
  assert.deepEqual(records, [
    {
      level: 'warn',
      message: 'died',
      stage: 'digits',
      worker: 0,
      fields: { runtime: 'main', pid: 12, cause: 'SIGKILL' },
    },
    { level: 'info', message: 'engine ready', fields: { runtime: 'main' } },
  ]);
});

test('text with line breaks, quotes and format characters stays the one message it is', () => {
  const { log, records } = logAt('info');
  const message = 'a %s %d %j\n{"level":"error","message":"forged"}\r\u2028"\u0000\ud800';
  log.write({ level: 'info', message, stage: message, fields: { cause: message } });
  assert.equal(records.length, 1);
  assert.deepEqual(records[0], { level: 'info', message, stage: message, fields: { runtime: 'main', cause: message } });
});

test('fields named like parts of the record do not replace these', () => {
  const { log, records } = logAt('info');
  const fields = { level: 'error', message: 'forged', stage: 'other', worker: 9 };
  log.write({ level: 'info', message: 'real', stage: 'digits', worker: 0, fields });
  assert.deepEqual(records, [
    { level: 'info', message: 'real', stage: 'digits', worker: 0, fields: { runtime: 'main', ...fields } },
  ]);
});
