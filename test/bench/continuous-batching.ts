/** Part m: results of many lengths from a model that makes them step by step: one at a time, in batches, and continuously. */
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop, type Offered, openLoop } from './load.ts';
import { interleave, medianOf, percentile } from './measure.ts';
import { atLeast, figure, type Part, type PartResult, ratio, type Scale } from './report.ts';

const STEP_MS = 2;
const PLACES = 8;
const TOKENS = [4, 8, 4, 64, 8, 16, 4, 32];
const MEAN_TOKENS = TOKENS.reduce((sum, tokens) => sum + tokens, 0) / TOKENS.length;
/** Requests per second at which the times are taken: about half of what one at a time can do. */
const PER_SECOND = 0.5 * (1000 / (STEP_MS * MEAN_TOKENS));
const IN_FLIGHT = 4 * PLACES;

const init = { ms: STEP_MS };
const STAGES = {
  'one at a time': { modelet: 'tokens', init },
  [`batches of ${PLACES}`]: { modelet: 'tokens-batch', init, batching: batchesOf(PLACES) },
  [`continuous, ${PLACES} places`]: { modelet: 'tokens', init, concurrency: PLACES },
} as const satisfies Record<string, BedStage>;
const NAMES = Object.keys(STAGES);

interface Row {
  readonly name: string;
  readonly perSecond: number;
  readonly offered: readonly Offered[];
}

export const continuousBatching: Part = {
  letter: 'm',
  title: 'continuous batching of results of many lengths',
  async run(scale): Promise<PartResult> {
    const bed = await Bed.start(Object.fromEntries(Object.entries(STAGES).map(([name, stage]) => [name, [stage]])));
    try {
      return tell(await measure(bed, scale));
    } finally {
      await bed.close();
    }
  },
};

async function measure(bed: Bed, { rounds, seconds }: Scale): Promise<Row[]> {
  let made = 0;
  const tokens = (): number => {
    made += 1;
    return TOKENS[made % TOKENS.length] as number;
  };
  const each = <Result>(run: (name: string) => Promise<Result>): Promise<Record<string, readonly Result[]>> =>
    interleave(rounds, Object.fromEntries(NAMES.map((name) => [name, () => run(name)])));
  const full = await each((name) =>
    closedLoop((value, settled) => bed.send(name, value, settled), tokens, {
      inFlight: IN_FLIGHT,
      seconds: 2 * seconds,
    }),
  );
  const offered = await each((name) =>
    openLoop((value, settled) => bed.send(name, value, settled), tokens, {
      perSecond: PER_SECOND,
      seconds: 3 * seconds,
    }),
  );
  return NAMES.map((name) => ({
    name,
    perSecond: medianOf(full[name] ?? [], ({ itemsPerSecond }) => itemsPerSecond),
    offered: offered[name] ?? [],
  }));
}

function tell(rows: readonly Row[]): PartResult {
  const [one, batches, continuous] = rows.map(({ perSecond }) => perSecond) as [number, number, number];
  const late = ({ offered }: Row, percent: number): string =>
    figure(medianOf(offered, ({ ms }) => percentile(ms, percent)));
  return {
    tables: [
      {
        title: `m. Results of ${Math.min(...TOKENS)} to ${Math.max(...TOKENS)} tokens, ${STEP_MS} ms a step for any number of them`,
        columns: ['way', 'results/s', 'of one at a time', 'p50 ms', 'p99 ms'],
        rows: rows.map((row) => [
          row.name,
          figure(row.perSecond),
          ratio(row.perSecond / one),
          late(row, 50),
          late(row, 99),
        ]),
        notes: [
          `Results/s with ${IN_FLIGHT} requests in flight; times at ${figure(PER_SECOND)} requests/s, which each way can do.`,
        ],
      },
    ],
    budgets: [
      atLeast({
        ...{ what: 'results/s of continuous batching, of batches that stay together', unit: 'x', gates: true },
        ...{ value: continuous / batches, limit: 1.5 },
      }),
    ],
  };
}
