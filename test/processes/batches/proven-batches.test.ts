/** Modelets whose examples prove that a batch answers as single calls do, or not, in real workers of each kind. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { LogRecord } from '../../../src/core/model.ts';
import { stageBadge } from '../../../src/node-red/status.ts';
import { describeDifference, differenceOf } from '../../../src/runtime/worker/batch/alike.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { pythonWith, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const [NUMPY, WITHOUT_NUMPY] = pythonWith('numpy');

const batch = { policy: 'oldest', maxBatchSize: 4, maxWaitMs: 60_000 } as const;

interface Model {
  readonly examples: string;
  readonly javascript: string;
  readonly python: string;
}

const DOUBLE = { javascript: 'all.map((x) => x * 2)', python: '[x * 2 for x in all]' };
const MODELS: Readonly<Record<string, Model>> = {
  honest: {
    examples: '[1, 2, 3]',
    javascript: 'all.map((x) => x * (2 + all.length / 1e7))',
    python: '[x * (2 + len(all) / 1e7) for x in all]',
  },
  mixing: {
    examples: '[1, 2, 3]',
    javascript: 'all.map((x) => ({ y: [x, x - Math.max(...all)] }))',
    python: '[{"y": [x, x - max(all)]} for x in all]',
  },
  alone: {
    examples: '[1, 2]',
    javascript: '(() => { if (all.length > 1) throw new Error("too many"); return all; })()',
    python: 'all if len(all) == 1 else 1 / 0',
  },
  untold: { examples: '[1]', ...DOUBLE },
  constant: { examples: '[1, 2]', javascript: 'all.map(() => 5)', python: '[5 for _ in all]' },
};

const REASONS: Readonly<Record<string, RegExp>> = {
  honest: /^$/,
  mixing:
    /^items run one by one: results depend on other inputs of the batch: "y" is \[1, 0\] alone, and \[1, -2\] together/,
  alone: /^items run one by one: several inputs fail together: (too many|division by zero)/,
  untold:
    /^items run one by one: no two inputs could be tried: give examples, or set batch to [tT]rue if results do not mix$/,
  constant:
    /^items run one by one: the inputs that were tried have the same result: give examples whose results differ, or/,
};

function javascript(folder: string, name: string, { examples, javascript: body }: Model): Partial<StageSpec> {
  const file = join(folder, `${name}.mjs`);
  writeFileSync(
    file,
    `export default class {
      static batch = 'proven';
      static examples = ${examples};
      predict(all) { console.log('${name} ran ' + JSON.stringify(all)); return ${body}; }
    }`,
  );
  return { file };
}

function python(folder: string, name: string, { examples, python: body }: Model): Partial<StageSpec> {
  const file = join(folder, `${name}.py`);
  writeFileSync(
    file,
    `class Model:
    batch = "proven"
    examples = ${examples}
    def predict(self, all):
        print("${name} ran", all)
        return ${body}
`,
  );
  return { python: file };
}

/** Inputs that are no examples. */
const ASKED = [11, 12, 13, 14];

/** Returns the sizes of the calls of a stage's model for inputs that the test asked. */
function sizes(service: TestService, name: string): number[] {
  const marker = `${name} ran `;
  const lines = service.logs.map(({ message }) => message).filter((line) => line.startsWith(marker));
  const calls = lines.map((line) => JSON.parse(line.slice(marker.length)) as number[]);
  return calls.filter((inputs) => inputs.every((input) => ASKED.includes(input))).map(({ length }) => length);
}

/** Asks a full batch, and returns the answers and the sizes of the calls that made them. */
async function ask(service: TestService, name: string): Promise<[unknown[], number[]]> {
  const answers = await Promise.all(ASKED.map((n) => service.value(n, { entry: name })));
  const all = (): number => sizes(service, name).reduce((sum, size) => sum + size, 0);
  await until('the calls are logged', () => all() >= ASKED.length);
  return [answers, sizes(service, name)];
}

const KINDS: ReadonlyArray<readonly [string, typeof javascript, Partial<StageSpec>, string | false]> = [
  ['JavaScript in a process', javascript, { isolation: 'process' }, false],
  ['JavaScript in a thread', javascript, { isolation: 'thread' }, false],
  ['Python', python, {}, WITHOUT_PYTHON],
];

for (const [kind, write, more, skip] of KINDS) {
  describe(`a class in ${kind} with batch "proven"`, { skip }, () => {
    test('gets several inputs in a call only if its examples prove it, and the stage says why not', async (t) => {
      const folder = folderFor(t);
      const stages = Object.entries(MODELS).map(
        ([id, model]): StageSpec => ({ id, batch, ...more, ...write(folder, id, model) }),
      );
      const service = await serve(t, { stages, routes: Object.fromEntries(stages.map(({ id }) => [id, [id]])) });
      await service.ready();
      await until('all is told', () => stages.every(({ id }) => id === 'honest' || service.stage(id).batchWarning));
      const snapshot = service.service.snapshot();
      for (const [id, reason] of Object.entries(REASONS)) {
        const stage = service.stage(id);
        const singly = id !== 'honest';
        assert.match(stage.batchWarning?.text ?? '', reason);
        const { fill, text } = stageBadge(stage, snapshot, 0) as { fill?: string; text?: string };
        const badge = singly ? ['yellow', 'idle, 1 worker, one by one'] : ['green', 'idle, 1 worker'];
        assert.deepEqual([fill, text], badge);
        const warned = (): boolean =>
          service.logs.some(
            ({ message }) => message.includes('one by one') && message.includes(stage.batchWarning?.text ?? ''),
          );
        if (singly) await until(`the log says why ${id} runs so`, warned);
      }
      assert.deepEqual((await ask(service, 'honest'))[1], [4]);
      const [mixed, calls] = await ask(service, 'mixing');
      assert.deepEqual([mixed, calls], [ASKED.map((y) => ({ y: [y, 0] })), [1, 1, 1, 1]]);
      assert.deepEqual(await ask(service, 'untold'), [
        [22, 24, 26, 28],
        [1, 1, 1, 1],
      ]);
    });

    test('is proven without a batcher, too: the stage may get one while the worker runs', async (t) => {
      const stage = { id: 'mixing', ...more, ...write(folderFor(t), 'mixing', MODELS['mixing'] as Model) };
      const service = await serve(t, { stages: [stage] });
      await service.ready();
      assert.equal(service.stage('mixing').batchWarning, undefined);
      const [{ pid } = { pid: null }] = service.stage('mixing').workers;
      const warnings = (): LogRecord[] => service.logs.filter(({ message }) => /^items run one by one: /.test(message));
      assert.deepEqual(warnings(), []);
      service.apply({ stages: [{ ...stage, batch }] });
      const warning = await until('it is shown', () => service.stage('mixing').batchWarning);
      const [logged] = await until('the log says so', () => warnings().length > 0 && warnings());
      assert.deepEqual([logged?.level, logged?.stage, logged?.message], ['warn', 'mixing', warning.text]);
      const { text } = stageBadge(service.stage('mixing'), service.service.snapshot(), 0) as { text?: string };
      assert.equal(text, 'idle, 1 worker, one by one');
      assert.equal(service.stage('mixing').workers[0]?.pid, pid);
      const answers = await Promise.all([1, 2, 3, 4].map((n) => service.value(n)));
      assert.deepEqual(
        answers,
        [1, 2, 3, 4].map((y) => ({ y: [y, 0] })),
      );
      service.apply({ stages: [stage] });
      await until('without a batcher, nothing is said', () => service.stage('mixing').batchWarning === undefined);
      assert.equal(warnings().length, 1);
    });
  });
}

describe('two answers', () => {
  const PAIRS: ReadonlyArray<readonly [unknown, unknown, string]> = [
    [1, 1, ''],
    [1, 2, 'the result is 1 alone, and 2 together'],
    [1.5, 1.5001, ''],
    [1.5, 1.51, 'the result is 1.5 alone, and 1.51 together'],
    [[7, 5000], [8, 5000], 'the result is [7, 5000] alone, and [8, 5000] together'],
    [[0.001, 50.5], [0.002, 50.5], ''],
    [{ a: ['x'] }, { a: ['y'] }, '"a.0" is "x" alone, and "y" together'],
    [{ a: null }, { a: null, b: 1 }, 'the result is another object alone, and another object together'],
    [[null, 1], [1, 1], 'the result is a list of 2 alone, and [1, 1] together'],
    [true, 1, 'the result is true alone, and 1 together'],
    [[], [], ''],
  ];

  for (const [one, other, difference] of PAIRS) {
    test(`${JSON.stringify(one)} and ${JSON.stringify(other)}: ${difference || 'alike'}`, () => {
      const found = differenceOf(one, other);
      assert.equal(found ? describeDifference(found) : '', difference);
    });
  }

  test('of other kinds than JSON are compared by what they hold', () => {
    assert.ok(differenceOf(new Date(1), new Date(2)));
    assert.equal(differenceOf(new Date(1), new Date(1)), null);
    assert.ok(differenceOf(new Map([['a', 1]]), new Map([['a', 2]])));
    assert.ok(differenceOf(new Set([1.5]), new Set([2.5])));
    assert.equal(differenceOf({ a: new Float32Array([1, 2]) }, { a: new Float32Array([1, 2.0001]) }), null);
    assert.ok(differenceOf(Buffer.from('a'), Buffer.from('b')));
  });

  test('are compared in Python alike', { skip: WITHOUT_NUMPY }, () => {
    const code = `
import array, json, sys
import numpy as np
from datetime import datetime
from modelet_worker.alike import describe_difference, difference_of
def text(one, other):
    found = difference_of(one, other)
    return describe_difference(found) if found else ""
for one, other, difference in json.load(sys.stdin):
    assert text(one, other) == difference, (one, other, text(one, other))
half, single = np.array([1, 2], "f2"), np.array([[1, np.nan], [np.inf, 4]], "f4")
assert text(half, half + np.array(0.01, "f2")) == ""
assert text(half, half * 2) == "the result is [1, 2] alone, and [2, 4] together"
assert text(single, single.copy()) == ""
assert text({"y": single}, {"y": single * 2}).startswith('"y" is [1, NaN, Infinity, 4] of shape [2, 2] alone')
assert text(single, single.reshape(-1)) != "" and text(single, single.astype("f8")) != ""
assert text(array.array("d", [1]), array.array("d", [1.1])) != "" and text(array.array("d", [1]), array.array("d", [1])) == ""
assert text(datetime(2000, 1, 1), datetime(2000, 1, 2)) != "" and text({1, 2}, {2, 1}) == ""
assert text([10**400, 0.5], [10**400, 0.5]) == "" and text([10**400, 0.5], [10**400 + 1, 0.5]) != ""
`;
    const path = join(repositoryRoot, 'src', 'runtime', 'worker', 'python');
    execFileSync(NUMPY, ['-c', code], {
      input: JSON.stringify(PAIRS),
      env: { ...process.env, PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: '1' },
    });
  });
});
