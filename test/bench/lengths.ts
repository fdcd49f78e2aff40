/**
 * Part o: texts of mixed lengths, in order and in batches by length, through a model in ONNX of the form of a transformer
 * and through a model that fills up its texts.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { COST_IN_BYTES } from '../../src/core/model.ts';
import { type Drawing, writeModel } from '../fixtures/onnx.ts';
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop, type LoopResult } from './load.ts';
import { interleave, medianOf, percentile } from './measure.ts';
import { atLeast, figure, type Part, type PartResult, ratio, type Scale } from './report.ts';

const WORDS = 500;
const WIDTH = 32;
const LAYERS = 6;
const LENGTHS = { least: 4, most: 128 } as const;
const BATCH = 32;
const IN_FLIGHT = 4 * BATCH;
/** Times of a model that pads, in ms: for a call, and for each token of each text, filled up to the longest. */
const FILLING = { callMs: 1, tokenMs: 0.003 } as const;

interface Text {
  readonly ids: readonly number[];
  readonly mask: readonly number[];
}

/** Numbers from 0 to 1, the same in each run. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function textOf(length: number, next: () => number): Text {
  const ids = Array.from({ length }, () => Math.floor(100 + next() * (WORDS - 100)));
  return { ids, mask: ids.map(() => 1) };
}

type Node = Drawing['nodes'][number];
type Constant = NonNullable<Drawing['constants']>[number];

/** Attention among the tokens of a text, then two dense layers. */
function layer(at: number, weights: (name: string, ...dims: readonly number[]) => string): Node[] {
  const named = (name: string): string => `${name}${at}`;
  const dense = (name: string, input: string, ...dims: readonly number[]): Node => {
    return { operator: 'MatMul', inputs: [input, weights(named(`w_${name}`), ...dims)], output: named(name) };
  };
  const from = at === 0 ? 'embedded' : `out${at - 1}`;
  return [
    dense('q', from, WIDTH, WIDTH),
    dense('k', from, WIDTH, WIDTH),
    dense('v', from, WIDTH, WIDTH),
    { operator: 'Transpose', inputs: [named('k')], output: named('kt'), attributes: { perm: [0, 2, 1] } },
    { operator: 'MatMul', inputs: [named('q'), named('kt')], output: named('near') },
    { operator: 'Add', inputs: [named('near'), 'hidden'], output: named('seen') },
    { operator: 'Softmax', inputs: [named('seen')], output: named('share'), attributes: { axis: 2 } },
    { operator: 'MatMul', inputs: [named('share'), named('v')], output: named('mixed') },
    dense('wide', named('mixed'), WIDTH, 4 * WIDTH),
    { operator: 'Relu', inputs: [named('wide')], output: named('kept') },
    dense('out', named('kept'), 4 * WIDTH, WIDTH),
  ];
}

/** Gives each text the mean of what its tokens have become. */
function transformer(): Drawing {
  const next = numbersFrom(1);
  const constants: Constant[] = [
    { name: 'one', dims: [1], values: [1] },
    { name: 'far', dims: [1], values: [1e9] },
    { name: 'first', type: 'int64', dims: [1], values: [1n] },
    { name: 'second', type: 'int64', dims: [1], values: [2n] },
  ];
  const weights = (name: string, ...dims: readonly number[]): string => {
    const count = dims.reduce((product, dim) => product * dim, 1);
    constants.push({ name, dims, values: Array.from({ length: count }, () => (next() - 0.5) / Math.sqrt(WIDTH)) });
    return name;
  };
  const nodes: Node[] = [
    { operator: 'Gather', inputs: [weights('words', WORDS, WIDTH), 'ids'], output: 'embedded' },
    { operator: 'Sub', inputs: ['mask', 'one'], output: 'absent' },
    { operator: 'Mul', inputs: ['absent', 'far'], output: 'below' },
    { operator: 'Unsqueeze', inputs: ['below', 'first'], output: 'hidden' },
    ...Array.from({ length: LAYERS }, (_, at) => layer(at, weights)).flat(),
    { operator: 'Unsqueeze', inputs: ['mask', 'second'], output: 'present' },
    { operator: 'Mul', inputs: [`out${LAYERS - 1}`, 'present'], output: 'counted' },
    { operator: 'ReduceSum', inputs: ['counted', 'first'], output: 'sum', attributes: { keepdims: 0 } },
    { operator: 'ReduceSum', inputs: ['mask', 'first'], output: 'length', attributes: { keepdims: 1 } },
    { operator: 'Div', inputs: ['sum', 'length'], output: 'vector' },
  ];
  return {
    inputs: [
      { name: 'ids', type: 'int64', shape: ['batch', 'sequence'] },
      { name: 'mask', shape: ['batch', 'sequence'] },
    ],
    outputs: [{ name: 'vector', shape: ['batch', WIDTH] }],
    nodes,
    constants,
    operators: 13,
  };
}

/** The ways of a model in ONNX, then those of a model that fills up its texts by itself. */
function stagesOf(model: string): Readonly<Record<string, BedStage>> {
  const examples = [textOf(16, numbersFrom(2))];
  const inOrder = batchesOf(BATCH);
  const byLength = { ...inOrder, costs: { by: COST_IN_BYTES, most: 0, padded: true } };
  const onnx = { modelet: model, init: { examples, pad: { ids: 0, mask: 0 } } };
  const filling = { modelet: 'fills-up', init: FILLING };
  return {
    'ONNX, no padding': { modelet: model, init: { examples }, batching: inOrder },
    'ONNX, padding': { ...onnx, batching: inOrder },
    'ONNX, padding, by length': { ...onnx, batching: byLength },
    'a model that pads': { ...filling, batching: inOrder },
    'a model that pads, by length': { ...filling, batching: byLength },
  };
}

interface Row {
  readonly name: string;
  readonly perSecond: number;
  /** The worker's time on its core, in microseconds. */
  readonly cpu: number;
  readonly runs: number;
  /** Tokens that its model computes for each token of a text. */
  readonly filled: number;
  readonly p50: number;
  readonly p99: number;
}

export const lengths: Part = {
  letter: 'o',
  title: 'texts of mixed lengths in batches by length',
  async run(scale): Promise<PartResult> {
    const folder = mkdtempSync(join(tmpdir(), 'modelet-lengths-'));
    try {
      const stages = stagesOf(writeModel(folder, 'texts', transformer()));
      const bed = await Bed.start(Object.fromEntries(Object.entries(stages).map(([name, stage]) => [name, [stage]])));
      try {
        return tell(await measure(bed, Object.keys(stages), scale));
      } finally {
        await bed.close();
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

async function measure(bed: Bed, names: readonly string[], { rounds, seconds }: Scale): Promise<Row[]> {
  const next = numbersFrom(3);
  const ratioOfLengths = LENGTHS.most / LENGTHS.least;
  // As many texts between 4 and 8 tokens as between 64 and 128.
  const makeText = (): Text => textOf(Math.round(LENGTHS.least * ratioOfLengths ** next()), next);
  const seen = Object.fromEntries(names.map((name) => [name, { ms: [] as number[], own: 0, computed: 0 }]));
  const load = (name: string): Promise<LoopResult> =>
    closedLoop(
      (value, settled) => {
        const sentAt = performance.now();
        bed.send(name, value, (result) => {
          const of = seen[name] as (typeof seen)[string];
          of.ms.push(performance.now() - sentAt);
          of.own += (value as Text).ids.length;
          if (typeof result === 'number') of.computed += result;
          settled(result);
        });
      },
      makeText,
      { inFlight: IN_FLIGHT, seconds: 2 * seconds, processes: { workers: bed.workerPids(name) } },
    );
  const results = await interleave(rounds, Object.fromEntries(names.map((name) => [name, () => load(name)])));
  return names.map((name) => {
    const { runs = 0, countedBatches = 0 } = bed.snapshot().stages.find(({ id }) => id === `${name}-1`)?.reading ?? {};
    const { ms, own, computed } = seen[name] as (typeof seen)[string];
    return {
      name,
      perSecond: medianOf(results[name] ?? [], ({ itemsPerSecond }) => itemsPerSecond),
      cpu: medianOf(results[name] ?? [], ({ cpu }) => cpu.workers),
      runs: runs / countedBatches,
      filled: computed / own,
      p50: percentile(ms, 50),
      p99: percentile(ms, 99),
    };
  });
}

function tell(rows: readonly Row[]): PartResult {
  const [none, padded, byLength, inOrder, sorted] = rows as [Row, Row, Row, Row, Row];
  const shown = (row: Row, first: Row): string[] => {
    const [perSecond, of] = [figure(row.perSecond), ratio(row.perSecond / first.perSecond)];
    const costs = first === none ? [figure(row.cpu / 1000), '-'] : ['-', figure(row.filled)];
    return [row.name, perSecond, of, ...costs, figure(row.runs), figure(row.p50), figure(row.p99)];
  };
  return {
    tables: [
      {
        title: `o. Texts of ${LENGTHS.least} to ${LENGTHS.most} tokens in batches of ${BATCH}`,
        columns: [
          'way',
          'texts/s',
          'of the first',
          'CPU ms a text',
          'tokens a token',
          'runs a batch',
          'p50 ms',
          'p99 ms',
        ],
        rows: [
          ...[none, padded, byLength].map((row) => shown(row, none)),
          ...[inOrder, sorted].map((row) => shown(row, inOrder)),
        ],
        notes: [
          `With ${IN_FLIGHT} texts in flight, as many of 4 to 8 tokens as of 64 to 128. The model in ONNX has ${LAYERS} layers of attention; its padding takes no texts together of which one is more than twice as long as another. The model that pads fills all texts of a batch up to the longest, and waits ${FILLING.callMs} ms and ${FILLING.tokenMs} ms for each token instead of computing; beside each token of a text it computes the padding of others.`,
        ],
      },
    ],
    budgets: [
      atLeast({
        ...{ what: 'tokens that a padding model computes in order, of batches by length', unit: 'x', gates: true },
        ...{ value: inOrder.filled / sorted.filled, limit: 1.8 },
      }),
    ],
  };
}
