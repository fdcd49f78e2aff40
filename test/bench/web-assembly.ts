/**
 * Part s: models in ONNX as WebAssembly beside the native runtime, in stages that are otherwise alike: texts through a model of
 * the form of a transformer, with weights as floats and as bytes, and pictures through layers of convolutions.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Drawing, writeModel } from '../fixtures/onnx.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { convolutions } from './convolutions.ts';
import { closedLoop, type LoopResult } from './load.ts';
import { interleave, medianOf, residentMb } from './measure.ts';
import { figure, type Part, type PartResult, ratio, type Scale } from './report.ts';
import { numbersFrom, textOf, transformer } from './transformer.ts';

const SIZE = { words: 2000, width: 256, layers: 6 } as const;
const TOKENS = 30;
/** Sides of the pictures, and the channels of each layer. */
const SIDE = 96;
const CHANNELS = [3, 16, 32, 64, 128] as const;
const BATCH = 8;

/** Hides the native runtime from a worker, as if it were built for another C library. */
const BROKEN = pathToFileURL(join(repositoryRoot, 'test', 'fixtures', 'broken-onnxruntime.js')).href;
const RUNTIMES = { native: {}, WebAssembly: { NODE_OPTIONS: `--import=${BROKEN}` } } as const;
const WAYS = { alone: 1, [`batches of ${BATCH}`]: BATCH } as const;

interface Model {
  readonly drawing: Drawing;
  readonly input: unknown;
  /** For the warm-up, where the drawing leaves more open than the batch. */
  readonly examples?: readonly unknown[];
}

/** Gives a number for each channel of the last layer. */
function pictures(): Drawing {
  const { nodes, constants, last } = convolutions('pixels', CHANNELS, numbersFrom(4));
  return {
    inputs: [{ name: 'pixels', shape: ['batch', CHANNELS[0], SIDE, SIDE] }],
    outputs: [{ name: 'found', shape: ['batch', CHANNELS.at(-1) as number, 1, 1] }],
    nodes: [...nodes, { operator: 'GlobalAveragePool', inputs: [last], output: 'found' }],
    constants,
  };
}

function models(): Readonly<Record<string, Model>> {
  const text = textOf(TOKENS, SIZE.words, numbersFrom(5));
  const texts = { input: text, examples: [text] };
  const next = numbersFrom(6);
  const pixels = Float32Array.from({ length: CHANNELS[0] * SIDE * SIDE }, () => next());
  return {
    'texts, floats': { drawing: transformer({ ...SIZE, weights: 'float32' }), ...texts },
    'texts, bytes (q8)': { drawing: transformer({ ...SIZE, weights: 'uint8' }), ...texts },
    pictures: { drawing: pictures(), input: { data: pixels, dims: [CHANNELS[0], SIDE, SIDE], type: 'float32' } },
  };
}

interface Row {
  readonly model: string;
  readonly way: string;
  /** By the runtime. */
  readonly cpuMs: Readonly<Record<keyof typeof RUNTIMES, number>>;
  readonly megabytes: Readonly<Record<keyof typeof RUNTIMES, number>>;
}

export const webAssembly: Part = {
  letter: 's',
  title: 'models in ONNX as WebAssembly beside the native runtime',
  async run(scale): Promise<PartResult> {
    const folder = mkdtempSync(join(tmpdir(), 'modelet-wasm-'));
    try {
      const rows: Row[] = [];
      for (const [name, model] of Object.entries(models())) rows.push(...(await measure(folder, name, model, scale)));
      return tell(rows);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

const routeOf = (runtime: string, way: string): string => `${runtime} ${way}`;

async function measure(
  folder: string,
  name: string,
  { drawing, input, examples = [] }: Model,
  { rounds, seconds }: Scale,
): Promise<Row[]> {
  const file = writeModel(folder, name.replaceAll(/\W+/g, '-'), drawing);
  const init = { threads: 1, examples };
  const routes = Object.entries(RUNTIMES).flatMap(([runtime, env]) =>
    Object.entries(WAYS).map(([way, size]): [string, BedStage[]] => [
      routeOf(runtime, way),
      [{ modelet: file, init, env, batching: batchesOf(size) }],
    ]),
  );
  const bed = await Bed.start(Object.fromEntries(routes));
  try {
    const load = (route: string, size: number): Promise<LoopResult> =>
      closedLoop(
        (value, settled) => bed.send(route, value, settled),
        () => input,
        { inFlight: 2 * size, seconds: 2 * seconds, processes: { workers: bed.workerPids(route) } },
      );
    const results = await interleave(
      rounds,
      Object.fromEntries(
        routes.map(([route, [stage]]) => [route, () => load(route, stage?.batching?.maxBatchSize ?? 1)]),
      ),
    );
    const byRuntime = (read: (route: string) => number, way: string): Row['cpuMs'] => ({
      native: read(routeOf('native', way)),
      WebAssembly: read(routeOf('WebAssembly', way)),
    });
    return Object.keys(WAYS).map((way) => ({
      ...{ model: name, way },
      cpuMs: byRuntime((route) => medianOf(results[route] ?? [], ({ cpu }) => cpu.workers) / 1000, way),
      megabytes: byRuntime((route) => residentMb(bed.workerPids(route)[0] as number), way),
    }));
  } finally {
    await bed.close();
  }
}

function tell(rows: readonly Row[]): PartResult {
  return {
    tables: [
      {
        title: 's. Models in ONNX as WebAssembly beside the native runtime',
        columns: ['model', 'items', 'CPU ms native', 'CPU ms WebAssembly', 'of native', 'MB native', 'MB WebAssembly'],
        rows: rows.map(({ model, way, cpuMs, megabytes }) => [
          model,
          way,
          ...[figure(cpuMs.native), figure(cpuMs.WebAssembly), ratio(cpuMs.WebAssembly / cpuMs.native)],
          ...[figure(megabytes.native), figure(megabytes.WebAssembly)],
        ]),
        notes: [
          `CPU of the worker for each item, one thread. Texts of ${TOKENS} tokens through ${SIZE.layers} layers of the width ${SIZE.width}; pictures of ${SIDE}x${SIDE} through ${CHANNELS.length - 1} convolutions.`,
        ],
      },
    ],
    budgets: [],
  };
}
