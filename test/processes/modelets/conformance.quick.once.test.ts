/**
 * The behaviour that all sources of a stage share, in any language and any kind of worker. A new source is a row
 * of SOURCES.
 * Shows: worker thread, worker file, worker module, worker python.
 */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { doubling, TABLE, writeModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { type Answer, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** How a stage of a source is brought to do something, and what it answers. */
interface Deed {
  readonly stage: Partial<StageSpec>;
  /** The input that does it; absent where the worker itself is brought to it. */
  readonly input?: unknown;
  readonly message?: RegExp;
}

interface Source {
  readonly name: string;
  readonly isolations: typeof ISOLATIONS;
  /** Why it cannot be tested here. */
  readonly skip?: string | false;
  /** Doubles numbers, per batch. */
  doubles(t: TestContext): Partial<StageSpec>;
  /** An item that fails alone with `invalid_input`, at the stage that doubles. */
  readonly refused: { readonly input: unknown; readonly message: RegExp };
  /** Doubles the elements of a large Float32Array. */
  large(t: TestContext): { readonly stage: Partial<StageSpec>; read(value: unknown): Float32Array };
  throws(t: TestContext): Deed;
  shortens(t: TestContext): Deed;
  /** Does not come through its warm-up, or its setup where it has no examples. */
  coldStart(t: TestContext): Deed;
  hangs(t: TestContext): Deed;
  dies(t: TestContext): Deed;
}

const modelets = join(repositoryRoot, 'test', 'fixtures', 'modelets');
const acts = join(modelets, 'acts.js');

type Stage = (t: TestContext) => Partial<StageSpec>;

/** The same code, wherever it is. */
function javascript(name: string, stage: Stage, cold: Stage, reason: RegExp): Source {
  return {
    name,
    isolations: ISOLATIONS,
    doubles: stage,
    refused: { input: 'refuse', message: /^not like this$/ },
    large: (t) => ({ stage: stage(t), read: (value) => value as Float32Array }),
    throws: (t) => ({ stage: stage(t), input: 'throw', message: /^no weights$/ }),
    shortens: (t) => ({ stage: stage(t), input: 'shorten', message: /^predict returned 0 results for 1 input$/ }),
    coldStart: (t) => ({ stage: cold(t), message: reason }),
    hangs: (t) => ({ stage: stage(t), input: 'hang' }),
    dies: (t) => ({ stage: stage(t), input: 'exit', message: /exited with code 7/ }),
  };
}

/** A user directory in which the modelet is an npm module. */
function installed(t: TestContext, module: string): Partial<StageSpec> {
  const requireFrom = folderFor(t);
  const folder = join(requireFrom, 'node_modules', module);
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(modelets, `${module}.js`), join(folder, 'index.js'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module", "exports": "./index.js"}');
  return { module, requireFrom };
}

const inline = {
  setup: `return import(${JSON.stringify(pathToFileURL(acts).href)});`,
  code: 'return state.act(input);',
};

/** Writes a model into a folder of the test. */
const onnx = (t: TestContext, drawing: Parameters<typeof writeModel>[2], init: object = {}): Partial<StageSpec> => ({
  onnx: writeModel(folderFor(t), 'model', drawing),
  init,
});

const WARM_UP = /the warm-up failed at example 1: no weights/;

const SOURCES: readonly Source[] = [
  javascript(
    'inline code',
    () => ({ inline, predict: 'batch' }),
    () => ({ inline: { setup: "throw new Error('no weights');", code: 'return input;' } }),
    /no weights/,
  ),
  javascript(
    'a file',
    () => ({ file: acts }),
    () => ({ file: join(modelets, 'cold.js') }),
    WARM_UP,
  ),
  javascript(
    'an npm module',
    (t) => installed(t, 'acts'),
    (t) => installed(t, 'cold'),
    WARM_UP,
  ),
  {
    name: 'an ONNX model',
    isolations: ['process'],
    doubles: (t) => onnx(t, doubling(['batch'])),
    refused: { input: 'refuse', message: /^input "x": element 0 is no float32$/ },
    large: (t) => ({
      stage: onnx(t, doubling(['batch', 'size']), { tensors: true }),
      read: (value) => (value as { data: Float32Array }).data,
    }),
    throws: (t) => ({ stage: onnx(t, TABLE), input: 7, message: /out of data bounds/ }),
    shortens: (t) => {
      const mean = { ...doubling(['batch', 3], { output: [3] }) };
      const nodes = [{ operator: 'ReduceMean', inputs: ['x'], output: 'y', attributes: { axes: [0], keepdims: 0 } }];
      const stage = onnx(t, { ...mean, nodes }, { batch: true });
      return { stage, input: [1, 2, 3], message: /cannot be split into 1 item:/ };
    },
    coldStart: (t) => ({
      stage: onnx(t, TABLE, { examples: [0, 7] }),
      message: /the warm-up failed at example 1: .*out of data bounds/,
    }),
    hangs: (t) => ({ stage: onnx(t, doubling(['batch'])) }),
    dies: (t) => ({ stage: onnx(t, doubling(['batch'])), message: /was killed by SIGKILL/ }),
  },
  {
    ...javascript(
      'a Python file',
      () => ({ python: 'acts', predict: 'batch' }),
      () => ({ python: 'cold' }),
      WARM_UP,
    ),
    isolations: ['process'],
    skip: WITHOUT_PYTHON,
  },
];

const outcome = ({ code, value }: Answer): unknown => (code === 'ok' ? value : code);

for (const source of SOURCES) {
  for (const isolation of source.isolations) {
    describe(`${source.name}, in a ${isolation}`, { skip: source.skip ?? false }, () => {
      /** A full batch leaves at once, any other never: what is asked together runs together. */
      const start = async (t: TestContext, stage: Partial<StageSpec>, batchSize: number): Promise<TestService> => {
        const batch = { policy: 'oldest', maxBatchSize: batchSize, maxWaitMs: 60_000 } as const;
        const service = await serve(t, { stages: [{ id: 'model', isolation, batch, ...stage }] });
        await service.ready();
        return service;
      };

      test('answers a batch of one', async (t) => {
        const service = await start(t, source.doubles(t), 1);
        const { value, timings } = await service.answer(21);
        assert.deepEqual([value, timings[0]?.batchSize], [42, 1]);
      });

      test('answers each item of a batch of 32, and a refused item fails alone', async (t) => {
        const service = await start(t, source.doubles(t), 32);
        const inputs: unknown[] = Array.from({ length: 32 }, (_, n) => n);
        inputs[7] = source.refused.input;
        const answers = await Promise.all(inputs.map((input) => service.answer(input)));
        assert.deepEqual(
          answers.map(outcome),
          inputs.map((input) => (typeof input === 'number' ? input * 2 : 'invalid_input')),
        );
        assert.ok(answers.every(({ timings }) => timings[0]?.batchSize === 32));
        assert.match(answers[7]?.error?.message ?? '', source.refused.message);
        assert.equal(answers[7]?.error?.stage, 'model');
      });

      test('without rerun, a throw fails its batch, and the worker goes on', async (t) => {
        const { stage, input, message = /^/ } = source.throws(t);
        const service = await start(t, { ...stage, rerun: 'off' }, 2);
        const [first, second] = await Promise.all([service.answer(input), service.answer(1)]);
        assert.deepEqual([first?.code, second?.code], ['modelet_failed', 'modelet_failed']);
        assert.match(first?.error?.message ?? '', message);
        const next = await Promise.all([service.answer(1), service.answer(2)]);
        assert.ok(next.every(({ code }) => code === 'ok'));
        assert.equal(service.stage('model').workers[0]?.restarts, 0);
      });

      test('without rerun, a wrong number of results fails the batch', async (t) => {
        const { stage, input, message = /^/ } = source.shortens(t);
        const service = await start(t, { ...stage, rerun: 'off' }, input === undefined ? 2 : 1);
        const inputs = input === undefined ? [1, 2] : [input];
        for (const { code, error } of await Promise.all(inputs.map((one) => service.answer(one)))) {
          assert.equal(code, 'bad_batch_length');
          assert.match(error?.message ?? '', message);
        }
      });

      test('takes and returns 4 MB of binary data', async (t) => {
        const { stage, read } = source.large(t);
        const service = await start(t, stage, 1);
        const input = Float32Array.from({ length: 1 << 20 }, (_, n) => n / 2);
        const output = read(await service.value(input));
        assert.ok(output instanceof Float32Array);
        assert.equal(output.length, input.length);
        assert.ok(output.every((value, n) => value === n));
      });

      test('is not ready if its first run fails, and says why', async (t) => {
        const { stage, message = /^/ } = source.coldStart(t);
        const service = await serve(t, { stages: [{ id: 'model', isolation, ...stage }] });
        const error = await until('the error is shown', () => service.stage('model').workers[0]?.error);
        assert.match(error, message);
        assert.equal((await service.answer(1)).code, 'stage_unavailable');
      });

      test('that hangs is killed, and a new worker serves', async (t) => {
        const { stage, input } = source.hangs(t);
        const service = await start(t, { ...stage, runTimeoutMs: 600 }, 1);
        if (input === undefined) process.kill(service.pids('model')[0] as number, 'SIGSTOP');
        assert.equal((await service.answer(input ?? 1)).code, 'deadline_exceeded');
        assert.equal(await service.value(4), 8);
      });

      test('that dies fails its items, and a new worker serves', async (t) => {
        const { stage, input, message = /^/ } = source.dies(t);
        const service = await start(t, stage, 1);
        const [pid] = service.pids('model');
        // Stopped first, so that it holds the request.
        if (input === undefined) process.kill(pid as number, 'SIGSTOP');
        const asked = service.ask(input ?? 1);
        if (input === undefined) {
          await until('it has the request', () => service.stage('model').busy === 1);
          kill9(pid);
        }
        const { code, error } = await asked.answer;
        assert.equal(code, 'worker_lost');
        assert.match(error?.message ?? '', message);
        assert.equal(await service.value(4), 8);
      });
    });
  }
}
