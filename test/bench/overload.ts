/** Part k: more comes than a stage can do: what is answered in time, of what the stage can do. */
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop, type Offered, openLoop } from './load.ts';
import { interleave, medianOf, percentile } from './measure.ts';
import { atLeast, figure, type Part, type PartResult, ratio, type Scale } from './report.ts';

const RUN_MS = 5;
const BATCH = 32;
const TIMEOUT_MS = 300;
/** Offered, of what the stage can do. */
const TIMES = [0.8, 2, 5] as const;
const MOST_TIMES = TIMES[TIMES.length - 1] as number;

const STAGES = {
  single: { modelet: 'sleep', init: { ms: RUN_MS } },
  batched: { modelet: 'sleep', init: { ms: RUN_MS }, batching: batchesOf(BATCH) },
} as const satisfies Record<string, BedStage>;
type Entry = keyof typeof STAGES;
const NAMES: Readonly<Record<Entry, string>> = {
  single: `${RUN_MS} ms each`,
  batched: `${RUN_MS} ms per batch of ${BATCH}`,
};
const ENTRIES = Object.keys(STAGES) as Entry[];

export const overload: Part = {
  letter: 'k',
  title: 'more than a stage can do',
  async run(scale): Promise<PartResult> {
    const bed = await Bed.start(Object.fromEntries(ENTRIES.map((entry) => [entry, [STAGES[entry]]])));
    try {
      return tell(await measure(bed, scale));
    } finally {
      await bed.close();
    }
  },
};

interface Row {
  readonly entry: Entry;
  readonly times: number;
  /** Items per second. */
  readonly can: number;
  readonly offered: readonly Offered[];
}

async function measure(bed: Bed, { rounds, seconds }: Scale): Promise<Row[]> {
  const rows: Row[] = [];
  for (const entry of ENTRIES) {
    const full = await closedLoop(
      (value, settled) => bed.send(entry, value, settled),
      () => 1,
      { inFlight: 2 * BATCH, seconds },
    );
    const can = full.itemsPerSecond;
    const send = (value: unknown, settled: (result: unknown) => void): void =>
      bed.send(entry, value, settled, { timeoutMs: TIMEOUT_MS, patient: false });
    const offers = TIMES.map((times) => [
      String(times),
      () => openLoop(send, () => 1, { perSecond: times * can, seconds: 2 * seconds }),
    ]);
    const results = await interleave(rounds, Object.fromEntries(offers) as Record<string, () => Promise<Offered>>);
    for (const times of TIMES) rows.push({ entry, times, can, offered: results[String(times)] ?? [] });
  }
  return rows;
}

const inTime = ({ offered }: Row): number => medianOf(offered, ({ perSecond }) => perSecond);
const late = (row: Row, percent: number): number => medianOf(row.offered, ({ ms }) => percentile(ms, percent));

function tell(rows: readonly Row[]): PartResult {
  return {
    tables: [
      {
        title: `k. More than a stage can do: requests that may take ${TIMEOUT_MS} ms`,
        columns: ['model', 'offered', 'in time/s', 'of what it can do', 'p50 ms', 'p99 ms', 'a plain queue, computed'],
        rows: rows.map((row) => [
          NAMES[row.entry],
          ratio(row.times),
          figure(inTime(row)),
          ratio(inTime(row) / row.can),
          figure(late(row, 50)),
          figure(late(row, 99)),
          ratio(plainQueue(row.times)),
        ]),
        notes: [
          'Times are those of the requests that were answered in time. The plain queue is first in first out, runs what',
          'has not expired when its turn comes, and has the same model to itself, one item at a time, without any cost.',
        ],
      },
    ],
    budgets: rows
      .filter(({ times }) => times === MOST_TIMES)
      .map((row) =>
        atLeast({
          what: `answered in time at ${MOST_TIMES} times what a stage can do, ${NAMES[row.entry]}`,
          value: inTime(row) / row.can,
          limit: 0.8,
          unit: 'x',
          gates: true,
        }),
      ),
  };
}

/** The share of its capacity that such a queue answers in time in its tenth second. */
function plainQueue(times: number): number {
  const [from, until] = [9000, 10_000];
  const everyMs = RUN_MS / times;
  let freeAt = 0;
  let answered = 0;
  for (let arrivedAt = 0; arrivedAt < until; arrivedAt += everyMs) {
    const startedAt = Math.max(freeAt, arrivedAt);
    if (startedAt - arrivedAt >= TIMEOUT_MS) continue;
    freeAt = startedAt + RUN_MS;
    if (freeAt - arrivedAt <= TIMEOUT_MS && freeAt > from && freeAt <= until) answered += 1;
  }
  return answered / ((until - from) / RUN_MS);
}
