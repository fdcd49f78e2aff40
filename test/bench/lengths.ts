/**
 * Part o: texts of mixed lengths, in order and in batches by length, through a model in ONNX of the form of a transformer
 * and through a model that fills up its texts.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { COST_IN_BYTES } from '../../src/core/model.ts';
import { writeModel } from '../fixtures/onnx.ts';
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop, type LoopResult } from './load.ts';
import { interleave, medianOf, percentile } from './measure.ts';
import { atLeast, figure, type Part, type PartResult, ratio, type Scale } from './report.ts';
import { numbersFrom, type Text, textOf, transformer } from './transformer.ts';

const SIZE = { words: 500, width: 32, layers: 6, weights: 'float32' } as const;
const LENGTHS = { least: 4, most: 128 } as const;
const BATCH = 32;
const IN_FLIGHT = 4 * BATCH;
/** Times of a model that pads, in ms: for a call, and for each token of each text, filled up to the longest. */
const FILLING = { callMs: 1, tokenMs: 0.003 } as const;

/** The ways of a model in ONNX, then those of a model that fills up its texts by itself. */
function stagesOf(model: string): Readonly<Record<string, BedStage>> {
  const examples = [textOf(16, SIZE.words, numbersFrom(2))];
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
      const stages = stagesOf(writeModel(folder, 'texts', transformer(SIZE)));
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
  const makeText = (): Text => textOf(Math.round(LENGTHS.least * ratioOfLengths ** next()), SIZE.words, next);
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
          `With ${IN_FLIGHT} texts in flight, as many of 4 to 8 tokens as of 64 to 128. The model in ONNX has ${SIZE.layers} layers of attention; its padding takes no texts together of which one is more than twice as long as another. The model that pads fills all texts of a batch up to the longest, and waits ${FILLING.callMs} ms and ${FILLING.tokenMs} ms for each token instead of computing; beside each token of a text it computes the padding of others.`,
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
