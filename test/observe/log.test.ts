/** The log of a process gives each record of a runtime to its destination, as data or as a line of JSON. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { LogLevel } from '../../src/core/model.ts';
import { jsonLines, Log, type OwnedRecord, recordsTo } from '../../src/observe/log/log.ts';

const LEVELS: readonly LogLevel[] = ['trace', 'debug', 'info', 'warn', 'error'];
const OWNER = { id: '1a', runtime: 'main' };

function logAt(level: LogLevel): { log: Log; records: OwnedRecord[] } {
  const records: OwnedRecord[] = [];
  return { log: Log.to(recordsTo((record) => records.push(record))).of(OWNER, level), records };
}

for (const [index, level] of LEVELS.entries()) {
  test(`a log at level ${level} omits less important records`, () => {
    const { log, records } = logAt(level);
    for (const written of LEVELS) log.write({ level: written, message: 'hello' });
    assert.deepEqual(
      records.map((record) => record.level),
      LEVELS.slice(index),
    );
  });
}

test('two logs of one process have a level and an owner each', () => {
  const records: OwnedRecord[] = [];
  const log = Log.to(recordsTo((record) => records.push(record)));
  const runtime = log.of(OWNER, 'warn');
  const gate = log.of({ id: '2b', gate: 'front' });
  for (const one of [runtime, gate]) {
    one.write({ level: 'debug', message: 'detail' });
    one.write({ level: 'warn', message: 'trouble' });
  }
  assert.deepEqual(
    records.map(({ owner, message }) => [owner, message]),
    [
      [OWNER, 'trouble'],
      [{ id: '2b', gate: 'front' }, 'detail'],
      [{ id: '2b', gate: 'front' }, 'trouble'],
    ],
  );
});

test('a destination gets a record unchanged, with its owner', () => {
  const { log, records } = logAt('info');
  log.write({ level: 'warn', message: 'died', stage: 'digits', worker: 0, fields: { pid: 12, cause: 'SIGKILL' } });
  log.write({ level: 'info', message: 'engine ready' });
  assert.deepEqual(records, [
    {
      level: 'warn',
      message: 'died',
      stage: 'digits',
      worker: 0,
      fields: { pid: 12, cause: 'SIGKILL' },
      owner: OWNER,
    },
    { level: 'info', message: 'engine ready', fields: {}, owner: OWNER },
  ]);
});

test('a message with line breaks, quotes and format characters stays one message', () => {
  const { log, records } = logAt('info');
  const message = 'a %s %d %j %%\n{"level":"error","message":"forged"}\r\u2028"\u0000\ud800';
  log.write({ level: 'info', message, stage: 'digits', fields: { cause: message } });
  assert.deepEqual(records, [{ level: 'info', message, stage: 'digits', fields: { cause: message }, owner: OWNER }]);
});

test('fields with the names of record properties replace nothing', () => {
  const { log, records } = logAt('info');
  const fields = { level: 'error', message: 'forged', stage: 'other', worker: 9, runtime: 'other', owner: 'other' };
  log.write({ level: 'info', message: 'real', stage: 'digits', worker: 0, fields });
  assert.deepEqual(records, [{ level: 'info', message: 'real', stage: 'digits', worker: 0, fields, owner: OWNER }]);
});

test('a log redacts passwords and tokens, in fields and in text', () => {
  const { log, records } = logAt('info');
  const message = 'cannot reach redis://app:p@ss@host:6379 with {"authorization": "Bearer abc.def"}';
  const fields = { password: 'p', accessToken: 't', inner: { cookie: 'c', tokens: 7 }, url: 'https://a:b@c/d', pid: 1 };
  log.write({ level: 'info', message, fields });
  const [record] = records;
  assert.equal(
    record?.message,
    'cannot reach redis://app:[Redacted]@host:6379 with {"authorization": "Bearer [Redacted]"}',
  );
  assert.deepEqual(record.fields, {
    password: '[Redacted]',
    accessToken: '[Redacted]',
    inner: { cookie: '[Redacted]', tokens: 7 },
    url: 'https://a:[Redacted]@c/d',
    pid: 1,
  });
});

test('a log without secrets stays unchanged', () => {
  const { log, records } = logAt('info');
  const message = 'GET http://host:80/a@b took 5 ms: basic authorization failed, see https://host/x?y=a:b@c';
  log.write({ level: 'info', message });
  assert.equal(records[0]?.message, message);
});

test('each record becomes one line of JSON with its time', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-log-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'log');
  const log = Log.to(jsonLines(file)).of(OWNER, 'info');
  log.write({
    level: 'warn',
    message: 'two\nlines',
    stage: 'digits',
    worker: 0,
    fields: { password: 'p', level: 'x' },
  });
  log.write({ level: 'debug', message: 'detail' });
  log.write({ level: 'info', message: 'engine ready' });
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const { time } of records) assert.ok(Date.parse(String(time)) > 0, `no time: ${time}`);
  assert.deepEqual(
    records.map(({ time: _time, ...record }) => record),
    [
      {
        level: 'warn',
        ...OWNER,
        stage: 'digits',
        worker: 0,
        fields: { password: '[Redacted]', level: 'x' },
        message: 'two\nlines',
      },
      { level: 'info', ...OWNER, message: 'engine ready' },
    ],
  );
});
