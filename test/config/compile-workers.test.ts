/** How many workers a stage has, where each runs, and with which environment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileRuntime } from '../../src/config/compile.ts';
import { compileStage, type StageConfig } from '../../src/config/compile-stage.ts';
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
  for (const count of ['0', '-1', '1.5', 'two', '257', 'NaN', 'Infinity', 0, '0-0', '1-257', '-3', '0-', 'Auto']) {
    assert.throws(() => workers({ workers: count }), { code: 'config_invalid', message: /^workers: must be a whole/ });
  }
  assert.equal(workers({ workers: '256' }).length, 256);
  assert.throws(() => workers({ cpus: '0-999' }), { code: 'config_invalid', message: /^workers/ });
});

const RANGES: readonly (readonly [string, number, StageConfig['scaling']])[] = [
  ['3', 3, null],
  ['2-2', 2, null],
  ['0-4', 4, { min: 0, idleMs: 600_000 }],
  [' 1 - 2 ', 2, { min: 1, idleMs: 600_000 }],
  ['auto', 8, { min: 1, idleMs: 600_000 }],
];

for (const [text, most, scaling] of RANGES) {
  test(`workers "${text}" are at most ${most}, with ${JSON.stringify(scaling)}`, () => {
    const config = compileStage(
      { workers: text },
      (path) => path,
      undefined,
      () => 8,
    );
    assert.deepEqual([config.workers.length, config.scaling], [most, scaling]);
  });
}

test('a range uses its pins in turn, has its own idle time, and is refused where worker hosts count', () => {
  const { workers: placed, scaling } = compileStage({ workers: '0-3', cpus: '0,1', idleMs: 5000 }, (path) => path);
  assert.deepEqual([placed.map(({ cpus }) => cpus), scaling], [[[0], [1], [0]], { min: 0, idleMs: 5000 }]);
  assert.equal(workers({ workers: 'auto', cpus: '0-2' }).length, 3, 'one per pin');
  const alone = compileStage(
    { workers: 'auto' },
    (path) => path,
    undefined,
    () => 1,
  );
  assert.deepEqual([alone.workers.length, alone.scaling], [1, null]);
  assert.throws(() => workers({ workers: '0-2', placement: 'remote' }), {
    code: 'config_invalid',
    message: /^workers: worker hosts/,
  });
  assert.throws(() => workers({ workers: '4-2' }), {
    code: 'config_invalid',
    message: /^workers: the range "4-2" runs backwards/,
  });
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
