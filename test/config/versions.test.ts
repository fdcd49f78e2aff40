/** The versions of a stage as its dialog writes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileStage } from '../../src/config/compile-stage.ts';

interface Row {
  readonly stage: string;
  readonly share?: string | number;
  readonly mode?: string;
}

function compile(rows: readonly Row[], rollback: string | number = ''): ReturnType<typeof compileStage> {
  const versions = rows.map(({ stage }) => stage);
  const shares = rows.map(({ stage: _stage, ...share }) => share);
  return compileStage({ versions, shares, rollback, sticky: ' user ' }, (path) => path);
}

test('versions have a stage, a share and a mode, and blank rows do not count', () => {
  const rows = [
    { stage: 'b', share: '10', mode: 'answer' },
    { stage: '', share: '' },
    { stage: 'c', share: 2.5, mode: 'shadow' },
  ];
  const { versions, rollback, sticky } = compile(rows, 5);
  assert.deepEqual(versions, [
    { stage: 'b', share: 10, mode: 'answer' },
    { stage: 'c', share: 2.5, mode: 'shadow' },
  ]);
  assert.deepEqual([rollback, sticky], [5, 'user']);
  assert.equal(compile([{ stage: 'b', share: '10' }]).rollback, null);
});

const CASES: readonly (readonly [rows: readonly Row[], message: RegExp, rollback?: string])[] = [
  [[{ stage: 'b', share: '101' }], /^versions: shares must be numbers from 0 to 100; got "101"$/],
  [[{ stage: 'b', share: '-1' }], /^versions: shares must be numbers/],
  [[{ stage: 'b', share: '' }], /^versions: shares must be numbers/],
  [[{ stage: 'b', share: 'half' }], /^versions: shares must be numbers/],
  [[{ stage: 'b', mode: 'both' }], /^versions: the mode must be answer or shadow; got "both"$/],
  [[{ stage: 'b' }, { stage: 'b' }], /^versions: stage b is listed twice$/],
  [
    [
      { stage: 'b', share: 60 },
      { stage: 'c', share: 41 },
    ],
    /^versions: the shares .* sum to 101 %, the maximum is 100 %$/,
  ],
  [[], /^rollback: must be a number from 0 to 100, or blank; got "many"$/, 'many'],
];

for (const [rows, message, rollback] of CASES) {
  test(`${JSON.stringify(rows)} ${rollback ?? ''} is refused`, () => {
    assert.throws(() => compile(rows, rollback), { code: 'config_invalid', message });
  });
}

test('a single id may come as text, as Node-RED has it inside a subflow', () => {
  const { versions } = compileStage({ versions: 'instance-b', shares: [{ share: 5 }] }, (path) => path);
  assert.deepEqual(versions, [{ stage: 'instance-b', share: 5, mode: 'answer' }]);
});

test('each version has a share', () => {
  const wrong = { versions: ['b'], shares: [] };
  assert.throws(
    () => compileStage(wrong, (path) => path),
    /^ModeletError: versions: there must be one share for each: 0 for 1 version$/,
  );
});

test('shadows do not count for the sum of the shares', () => {
  const shadow = { share: 100, mode: 'shadow' };
  assert.equal(
    compile([
      { stage: 'b', share: 100 },
      { stage: 'c', ...shadow },
      { stage: 'd', ...shadow },
    ]).versions.length,
    3,
  );
});
