/** How many workers a stage has, where each runs, and with which environment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileRuntime } from '../../src/config/compile.ts';
import { compileStage } from '../../src/config/compile-stage.ts';
import type { Pin, WorkerPlacement } from '../../src/core/model.ts';

function workers(raw: Record<string, unknown>): readonly WorkerPlacement[] {
  return compileStage(raw, (path) => path).workers;
}

const PLACEMENTS: readonly (readonly [string, string, readonly Pin[]])[] = [
  ['', '', [null]],
  ['3', '', [null, null, null]],
  ['', '0,1', [[0], [1]]],
  ['', '0-3', [[0], [1], [2], [3]]],
  ['', '[0-3]', [[0, 1, 2, 3]]],
  ['', '-,2', [null, [2]]],
  ['1', '0,1', [[0]]],
  ['5', '0,[1,2]', [[0], [1, 2], [0], [1, 2], [0]]],
  ['3', '-,7', [null, [7], null]],
  [' 2 ', ' 4 ', [[4], [4]]],
];

for (const [count, cpus, pins] of PLACEMENTS) {
  test(`workers "${count}" on cpus "${cpus}" run on ${JSON.stringify(pins)}`, () => {
    assert.deepEqual(
      workers({ workers: count, cpus }).map((worker) => worker.cpus),
      pins,
    );
  });
}

test('the compiler refuses a worker count that is not a whole number from 1 to 256', () => {
  for (const count of ['0', '-1', '1.5', 'two', '257', 'NaN', 'Infinity', 0]) {
    assert.throws(() => workers({ workers: count }), { code: 'config_invalid', message: /^workers: must be a whole/ });
  }
  assert.equal(workers({ workers: '256' }).length, 256);
  assert.throws(() => workers({ cpus: '0-999' }), { code: 'config_invalid', message: /^workers/ });
});

test('one environment serves all workers, and an array gives each worker its own', () => {
  assert.deepEqual(
    workers({ workers: '2', env: '{"A":"x","N":1,"FLAG":true}' }).map(({ env }) => env),
    [
      { A: 'x', N: '1', FLAG: 'true' },
      { A: 'x', N: '1', FLAG: 'true' },
    ],
  );
  assert.deepEqual(workers({ cpus: '0,1', env: '[{"GPU":"0"},{"GPU":"1"}]' }), [
    { cpus: [0], env: { GPU: '0' } },
    { cpus: [1], env: { GPU: '1' } },
  ]);
});

const BAD_ENVIRONMENTS: readonly (readonly [string, RegExp])[] = [
  ['{"A"', /^env: .*JSON/],
  ['"text"', /^env: must be an object/],
  ['null', /^env: must be an object/],
  ['7', /^env: must be an object/],
  ['[{"A":"1"}]', /^env: an array needs one object per worker: 1 for 2 workers/],
  ['[{"A":"1"},[]]', /^env: must be an object/],
  ['{"A":null}', /^env: A must be text or a number/],
  ['{"A":"secret\\u0000"}', /^env: "A" must not contain NUL$/],
  ['[{},{"A\\u0000":"x"}]', /^env: "A\\u0000" must not contain NUL$/],
  ['{"A":{"B":"C"}}', /^env: A must be text or a number/],
];

for (const [env, message] of BAD_ENVIRONMENTS) {
  test(`environment ${env} for two workers is refused`, () => {
    assert.throws(() => workers({ workers: '2', env }), { code: 'config_invalid', message });
  });
}

test('the cores of a runtime form one set, with or without brackets', () => {
  const { engineCpus, serverCpus } = compileRuntime({ engineCpus: ' [0, 2-3] ', serverCpus: '1 , 0' });
  assert.deepEqual(
    [engineCpus, serverCpus],
    [
      [0, 2, 3],
      [0, 1],
    ],
  );
});

test('a file source keeps the resolved path, and init may be any JSON', () => {
  const stage = compileStage({ source: 'file', path: ' m.js ', init: '[1,{"a":2}]' }, (path) => `/models/${path}`);
  assert.deepEqual(stage.source, { kind: 'file', path: '/models/m.js' });
  assert.deepEqual(stage.init, [1, { a: 2 }]);
});

test('the Python interpreter is a path, resolved like a file, or a name', () => {
  const pythonOf = (python: string): unknown =>
    compileStage({ source: 'python', path: 'm.py', python }, (path) => `/models/${path}`).source;
  const path = '/models/m.py';
  assert.deepEqual(pythonOf(''), { kind: 'python', path, python: '' });
  assert.deepEqual(pythonOf(' python3.12 '), { kind: 'python', path, python: 'python3.12' });
  assert.deepEqual(pythonOf('venv/bin/python'), { kind: 'python', path, python: '/models/venv/bin/python' });
});
