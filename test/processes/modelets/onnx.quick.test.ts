/**
 * ONNX models and known models in real workers: batches, threads, pins, and what a stage says that has no runtime for them.
 * Shows: worker onnx, worker task.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { ModeletError } from '../../../src/core/errors.ts';
import { stageBadge } from '../../../src/node-red/status.ts';
import type { StageSnapshot } from '../../../src/observe/views/snapshot.ts';
import { usableThreads } from '../../../src/process/container-limits.ts';
import { inspectOnnx } from '../../../src/runtime/service/inspect-onnx.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { classifier, type Drawing, digitsModel, doubling, TABLE, writeModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses } from '../../fixtures/processes.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { grantedCpus, type StageSpec, serve } from '../../fixtures/service.ts';

interface Digit {
  readonly image: readonly number[];
  readonly label: number;
}

const { images } = JSON.parse(readFileSync(join(repositoryRoot, 'assets', 'data', 'digits-test.json'), 'utf8')) as {
  images: readonly Digit[];
};

describe('an ONNX model', () => {
  test('returns the digits and the probabilities of the JavaScript model from the same training', async (t) => {
    const labels = Array.from({ length: 10 }, (_, digit) => String(digit));
    const batch = { maxBatchSize: 32 };
    const examples = join(repositoryRoot, 'assets', 'modelets');
    const service = await serve(t, {
      stages: [
        { id: 'onnx', onnx: digitsModel, init: { labels, softmax: true, examples: [images[0]?.image] }, batch },
        { id: 'normalise', file: join(examples, 'normalise.js') },
        { id: 'classify', file: join(examples, 'classify.js'), batch },
      ],
      routes: { onnx: ['onnx'], javascript: ['normalise', 'classify'] },
    });
    await service.ready();
    const both = images.map(async ({ image }) => {
      const [onnx, javascript] = await Promise.all([
        service.value<{ label: string; index: number; scores: number[] }>(image, { entry: 'onnx' }),
        service.value<{ digit: number; probabilities: number[] }>({ image }, { entry: 'javascript' }),
      ]);
      assert.deepEqual([onnx.label, onnx.index], [String(javascript.digit), javascript.digit]);
      for (const [digit, probability] of javascript.probabilities.entries()) {
        assert.ok(Math.abs(probability - (onnx.scores[digit] as number)) < 1e-5, `${probability}`);
      }
      return onnx.index;
    });
    const answers = await Promise.all(both);
    assert.equal(answers.filter((digit, at) => digit === images[at]?.label).length, 98);
    await until('they ran in batches', () => service.stage('onnx').meanBatchSize > 1);
  });

  test('runs with one thread per core, as many as set, or one beside other workers', async (t) => {
    const folder = folderFor(t);
    const onnx = writeModel(folder, 'double', doubling(['batch', 2]));
    const cpus = await grantedCpus();
    const stages: StageSpec[] = [
      { id: 'several', onnx, workers: 2 },
      { id: 'told', onnx, init: { threads: 3 }, workers: 2 },
      { id: 'pinned', onnx, workers: [cpus.slice(0, 2), cpus.slice(0, 1)] },
    ];
    const service = await serve(t, { stages, routes: Object.fromEntries(stages.map(({ id }) => [id, [id]])) });
    const pids = await service.ready();
    // A session of n threads starts n - 1 beside the calling one.
    const threads = (pid: number | undefined): number => {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      return Number(/^Threads:\s+(\d+)$/m.exec(status)?.[1]);
    };
    const one = threads(pids['several']?.[0]);
    assert.equal(threads(pids['several']?.[1]), one);
    assert.equal(threads(pids['told']?.[0]), one + 2);
    assert.equal(threads(pids['pinned']?.[0]), one + usableThreads(Math.min(cpus.length, 2)) - 1);
    assert.equal(threads(pids['pinned']?.[1]), one);
    assert.deepEqual(await service.value([1, 2], { entry: 'pinned' }), [2, 4]);
  });

  test('reports why a run failed, and goes on', async (t) => {
    const onnx = writeModel(folderFor(t), 'table', TABLE);
    const service = await serve(t, { stages: [{ id: 'table', onnx }] });
    const { code, error } = await service.answer(7);
    assert.equal(code, 'invalid_input');
    assert.match(
      error?.message ?? '',
      /the model cannot take the input: an index is out of range .*out of data bounds/,
    );
    assert.equal(await service.value(2), 30);
  });

  test('runs its examples before it is ready', async (t) => {
    const onnx = writeModel(folderFor(t), 'table', TABLE);
    const service = await serve(t, { stages: [{ id: 'table', onnx, init: { examples: [0, 9] } }] });
    const error = await until('the error is shown', () => service.stage('table').workers[0]?.error);
    assert.match(error, /the warm-up failed at example 1: .*out of data bounds/);
  });
});

describe('a model whose answers depend on the other items of a batch', () => {
  const softmax: Drawing = {
    ...doubling(['batch', 2]),
    nodes: [{ operator: 'Softmax', inputs: ['x'], output: 'y', attributes: { axis: 0 } }],
  };

  test('runs items one by one behind a batcher, and badge and Live say why', async (t) => {
    const onnx = writeModel(folderFor(t), 'softmax', softmax);
    const batch = { maxBatchSize: 8 };
    const stages = [
      { id: 'model', onnx, batch },
      { id: 'forced', onnx, batch, init: { batch: true } },
      { id: 'without a batcher', onnx },
    ];
    const routes = Object.fromEntries(stages.map(({ id }) => [id, [id]]));
    const service = await serve(t, { stages, routes });
    await service.ready();
    const answers = await Promise.all([1, 2, 3].map((n) => service.value([n, n], { entry: 'model' })));
    assert.deepEqual(answers, [
      [1, 1],
      [1, 1],
      [1, 1],
    ]);
    const shown = (id: string): unknown[] => {
      const snapshot = service.service.snapshot();
      const stage = snapshot.stages.find((other) => other.id === id) as StageSnapshot;
      const { fill = '', text = '' } = stageBadge(stage, snapshot, 0) as { fill?: string; text?: string };
      return [fill, text, stage.batchWarning?.text ?? ''];
    };
    const [fill, text, why] = await until('it is told', () => (shown('model')[2] ? shown('model') : null));
    assert.deepEqual([fill, text], ['yellow', 'idle, 1 worker, one by one']);
    assert.match(
      String(why),
      /^items run one by one: results depend on other inputs of the batch: "y" is \[1, 1\] alone/,
    );
    const [, mixed, warning] = shown('forced');
    assert.equal(mixed, 'idle, 1 worker, results mix');
    assert.match(String(warning), /^"batch": true runs items together, but results depend on .* together/);
    assert.deepEqual(shown('without a batcher'), ['green', 'idle, 1 worker', '']);
    // A deploy that adds a batcher keeps the workers.
    service.apply({ stages: stages.map((stage) => ({ ...stage, batch })), routes });
    await until('the deploy tells it', () => shown('without a batcher')[2] !== '');
    assert.deepEqual(shown('without a batcher').slice(0, 2), ['yellow', 'idle, 1 worker, one by one']);
  });
});

describe('an ONNX model with an output that its runtime cannot return', () => {
  test('does not start, and says how to export it: no output vanishes', async (t) => {
    const onnx = writeModel(folderFor(t), 'zipmap', classifier({ zipmap: true }));
    const service = await serve(t, { stages: [{ id: 'iris', onnx }] });
    const error = await until('the error is shown', () => service.stage('iris').workers[0]?.error);
    assert.match(error, /output "output_probability" .* options=\{"zipmap": False\}/);
    await assert.rejects(
      inspectOnnx(onnx, repositoryRoot, new AbortController().signal),
      /options=\{"zipmap": False\}/,
    );
  });
});

describe('a known model', () => {
  test('runs in a worker with the options of its stage, and says what it takes and gives', async (t) => {
    const folder = writeKnownModel(folderFor(t), KNOWN['text-classification'] as KnownModel);
    const task = { name: 'text-classification', folder } as const;
    const service = await serve(t, { stages: [{ id: 'mood', task, init: { topK: 1 }, batch: { maxBatchSize: 8 } }] });
    await service.ready();
    const answers = await Promise.all(
      ['good', 'bad bad', { input: 'bad', options: { topK: 2 } }].map((text) =>
        service.value<{ label: string }[]>(text),
      ),
    );
    assert.deepEqual(
      answers.map((answer) => answer.map(({ label }) => label)),
      [['POSITIVE'], ['NEGATIVE'], ['NEGATIVE', 'POSITIVE']],
    );
    const { code, error } = await service.answer({ input: 'good', options: { top: 1 } });
    assert.equal(code, 'invalid_input');
    assert.equal(error?.message, 'options must NOT have additional properties: "top"');
    const description = await until('it is described', () => service.service.description('mood'));
    assert.match(description.outputSchema ?? '', /"score"/);
    assert.match(description.inputSchema ?? '', /"topK"/);
  });
});

describe('without its runtime', () => {
  // As if it were not installed: this package finds it among its own, so the worker is told to look past them.
  const hidden = { NODE_OPTIONS: `--import=${join(repositoryRoot, 'test', 'fixtures', 'without-onnxruntime.js')}` };

  test('a stage names the command that installs it', async (t) => {
    const service = await serve(t, {
      stages: [{ id: 'digits', onnx: digitsModel, env: hidden, requireFrom: '/srv/flows' }],
    });
    const error = await until('the error is shown', () => service.stage('digits').workers[0]?.error);
    assert.match(
      error,
      /onnxruntime-node is not installed: run "npm install onnxruntime-node --ignore-scripts" in \/srv\/flows/,
    );
    const answer = await service.answer([1]);
    assert.equal(answer.code, 'stage_unavailable');
    assert.match(answer.error?.message ?? '', /npm install onnxruntime-node --ignore-scripts/);
    const folder = writeKnownModel(folderFor(t), KNOWN['text-classification'] as KnownModel);
    const task = { name: 'text-classification', folder } as const;
    service.apply({ stages: [{ id: 'mood', task, env: hidden, requireFrom: '/srv/flows' }] });
    const known = await until('the error is shown', () => service.stage('mood').workers[0]?.error);
    assert.match(
      known,
      /@huggingface\/transformers is not installed: press the button .* run "npm install @huggingface\/transformers --ignore-scripts" in \/srv\/flows/,
    );
  });
});

describe('where the native runtime does not load', () => {
  test('ONNX models and known models run as WebAssembly, and the badge says so', async (t) => {
    const env = { NODE_OPTIONS: `--import=${join(repositoryRoot, 'test', 'fixtures', 'broken-onnxruntime.js')}` };
    const folder = writeKnownModel(folderFor(t), KNOWN['text-classification'] as KnownModel);
    const service = await serve(t, {
      stages: [
        { id: 'digits', onnx: digitsModel, init: { softmax: true }, env },
        { id: 'nameless', onnx: writeModel(folderFor(t), 'nameless', doubling(['', 2])), env },
        { id: 'mood', task: { name: 'text-classification', folder }, env },
      ],
      routes: { digits: ['digits'], nameless: ['nameless'], mood: ['mood'] },
    });
    await service.ready();
    assert.deepEqual(await service.value([1, 2], { entry: 'nameless' }), [2, 4]);
    const answers = images.slice(0, 10).map(async ({ image }) => service.value<number[]>(image, { entry: 'digits' }));
    for (const [at, scores] of (await Promise.all(answers)).entries())
      assert.equal(scores.indexOf(Math.max(...scores)), images[at]?.label);
    const [first] = await service.value<{ label: string }[]>('bad', { entry: 'mood' });
    assert.equal(first?.label, 'NEGATIVE');
    for (const id of ['digits', 'mood']) {
      assert.match(
        service.stage(id).instead ?? '',
        /^runs as WebAssembly, which is several times slower: onnxruntime-node does not load: Error loading shared library/,
      );
      // The engine reports from time to time.
      await until('the badge is at rest', () => {
        const badge = stageBadge(service.stage(id), service.service.snapshot(), 0);
        return isDeepStrictEqual(badge, { fill: 'yellow', shape: 'dot', text: 'idle, 1 worker, as WebAssembly' });
      });
    }
  });
});

describe('the inputs and outputs of a model', () => {
  const ask = (path: string, gone = new AbortController().signal): ReturnType<typeof inspectOnnx> =>
    inspectOnnx(path, repositoryRoot, gone);

  test('are read for one model at a time, a few others wait, and the rest get Retry-After', async (t) => {
    const folder = folderFor(t);
    const paths = Array.from({ length: 30 }, (_, index) =>
      writeModel(folder, `model ${index}`, doubling(['batch', 2])),
    );
    const watch = new ProcessWatch();
    const refused: ModeletError[] = [];
    const asked = paths.map((path) => ask(path).catch((error) => void refused.push(error)));
    await until('the others are refused', () => refused.length >= 25);
    assert.equal(refused.length, 25, 'one is read and four wait');
    await Promise.all(asked);
    assert.equal(watch.end(), 1, 'there is one process at a time');
    // On a slow machine some wait for too long as well.
    for (const { code } of refused) assert.equal(code, 'capacity_exceeded');
  });

  test('are not read for callers that have gone while they waited', async (t) => {
    const folder = folderFor(t);
    const [first = '', second = '', third = ''] = ['first', 'second', 'third'].map((name) =>
      writeModel(folder, name, doubling(['batch', 2])),
    );
    const gone = new AbortController();
    const read = ask(first);
    const left = assert.rejects(ask(second, gone.signal), { code: 'capacity_exceeded' });
    const last = ask(third);
    const watch = new ProcessWatch();
    gone.abort();
    // Their answers show that the others were read: the watch may miss a process that ends soon.
    assert.deepEqual(await read, await last);
    await left;
    watch.end();
    assert.deepEqual(watch.seen(second), [false]);
  });

  test('are read in a separate process, once for all callers', async () => {
    const asked = [ask(digitsModel), ask(digitsModel)];
    assert.equal(asked[0], asked[1]);
    assert.deepEqual(await asked[0], {
      inputs: [{ name: 'image', type: 'float32', shape: ['batch', 8, 8] }],
      outputs: [{ name: 'scores', type: 'float32', shape: ['batch', 10] }],
      single: false,
    });
  });

  test('of a file that is not a model are an error', async () => {
    await assert.rejects(ask(join(repositoryRoot, 'package.json')), /package\.json/);
  });
});

/** Looks on all the time at the processes that read models. */
class ProcessWatch {
  readonly #commands: Set<string> = new Set();
  readonly #timer: NodeJS.Timeout = setInterval(() => this.#look(), 2);
  #most = 0;

  /** Most there were at a time. */
  end(): number {
    clearInterval(this.#timer);
    return this.#most;
  }

  /** Whether there was one for each. */
  seen(...paths: readonly string[]): boolean[] {
    return paths.map((path) => [...this.#commands].some((command) => command.includes(path)));
  }

  #look(): void {
    const reading = startedProcesses().filter(({ command }) => command.includes('onnx/inspect.js'));
    this.#most = Math.max(this.#most, reading.length);
    for (const { command } of reading) this.#commands.add(command);
  }
}
