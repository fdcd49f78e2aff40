/** Part a: the workload of seed 004, one request at a time and all at once. */
import { Bed, batchesOf } from './bed.ts';
import { allAtOnce, oneByOne, type Send } from './load.ts';
import { interleave, median } from './measure.ts';
import { sleepFor } from './modelets/sleep-square.ts';
import { atLeast, atMost, figure, type Part, type PartResult, ratio, type Scale } from './report.ts';

const ITEMS = 880;
const BATCH = 200;
const WAIT_MS = 100;
/** One request at a time with the timer takes 100 ms each, always: fewer are sent, and the time is scaled. */
const TIMED_ITEMS = 60;

const WARM_UP_ROUNDS = 4;

/** ln(n+1) ms for each of the fewest possible batches. */
const COMPUTED_FLOOR_MS = Math.floor(ITEMS / BATCH) * Math.log(BATCH + 1) + Math.log((ITEMS % BATCH) + 1);

const values = Array.from({ length: ITEMS }, (_, index) => index);

export const seedWorkload: Part = {
  letter: 'a',
  title: "seed 004's workload",
  async run(scale) {
    const modelet = 'sleep-square';
    const bed = await Bed.start({
      single: [{ modelet }],
      greedy: [{ modelet, batching: batchesOf(BATCH) }],
      timer: [{ modelet, batching: batchesOf(BATCH, 'oldest', WAIT_MS) }],
      gap: [{ modelet, batching: batchesOf(BATCH, 'gap', WAIT_MS) }],
    });
    try {
      return tell(await measure(bed, scale));
    } finally {
      await bed.close();
    }
  },
};

type Times = Record<
  'floor' | 'sequential' | 'sequentialGreedy' | 'sequentialTimer' | 'single' | 'greedy' | 'timer' | 'gap',
  number
>;

async function measure(bed: Bed, { rounds }: Scale): Promise<Times> {
  const via = (entry: string): Send => {
    return (value, settled) => bed.send(entry, value, settled);
  };
  const sequential = async (entry: string): Promise<number> => sum(await oneByOne(via(entry), valueAt, ITEMS));
  const together = async (entry: string): Promise<number> => {
    const { results, ms } = await allAtOnce(via(entry), values);
    results.forEach((result, index) => {
      if (result !== index * index) throw new Error(`item ${index} got another's result: ${String(result)}`);
    });
    return ms;
  };
  const burst = {
    floor: async () => directly(),
    greedy: () => together('greedy'),
    timer: () => together('timer'),
    gap: () => together('gap'),
  };
  await interleave(WARM_UP_ROUNDS, burst);
  const quick = await interleave(rounds * 2 + 1, burst);
  const slow = await interleave(Math.ceil(rounds / 2), {
    single: () => together('single'),
    sequential: () => sequential('single'),
    sequentialGreedy: () => sequential('greedy'),
  });
  const timed = await oneByOne(via('timer'), valueAt, TIMED_ITEMS);
  return {
    floor: median(quick.floor),
    greedy: median(quick.greedy),
    timer: median(quick.timer),
    gap: median(quick.gap),
    single: median(slow.single),
    sequential: median(slow.sequential),
    sequentialGreedy: median(slow.sequentialGreedy),
    sequentialTimer: (sum(timed) * ITEMS) / TIMED_ITEMS,
  };
}

/** The same sleeps in this process, nothing around them. */
function directly(): number {
  const startedAt = performance.now();
  for (let left = ITEMS; left > 0; left -= BATCH) sleepFor(Math.min(left, BATCH));
  return performance.now() - startedAt;
}

function tell(times: Times): PartResult {
  const row = (what: string, ms: number, against: number): string[] => [
    what,
    figure(ms),
    ratio(ms / COMPUTED_FLOOR_MS),
    ratio(against / ms),
  ];
  const { sequential, sequentialTimer } = times;
  return {
    tables: [
      {
        title: `a. Seed 004: ${ITEMS} numbers, ln(n+1) ms per batch of n, batches of ${BATCH}`,
        columns: ['how', 'ms', 'of the floor', 'faster than one at a time'],
        rows: [
          row('floor, computed', COMPUTED_FLOOR_MS, sequential),
          row('floor, the same sleeps in one process', times.floor, sequential),
          row('one at a time, batch 1', sequential, sequential),
          row('one at a time, batch 200, greedy', times.sequentialGreedy, sequential),
          row(`one at a time, batch 200, ${WAIT_MS} ms timer (scaled)`, sequentialTimer, sequentialTimer),
          row('all at once, batch 1', times.single, sequential),
          row('all at once, batch 200, greedy', times.greedy, sequential),
          row(`all at once, batch 200, ${WAIT_MS} ms timer`, times.timer, sequentialTimer),
          row(`all at once, batch 200, ${WAIT_MS} ms gap`, times.gap, sequentialTimer),
        ],
        notes: [
          `The rows with a timer or gap are compared with one at a time under the timer: ${TIMED_ITEMS} requests, scaled to ${ITEMS}.`,
        ],
      },
    ],
    budgets: [
      atMost({
        what: 'seed 004, all at once, greedy, of the 25.6 ms floor',
        value: times.greedy / COMPUTED_FLOOR_MS,
        limit: 1.3,
        unit: 'x',
        gates: true,
      }),
      atLeast({
        what: 'seed 004, wait 0.1 s, all at once against one at a time',
        value: sequentialTimer / times.timer,
        limit: 800,
        unit: 'x',
        gates: true,
      }),
    ],
  };
}

function valueAt(index: number): number {
  return values[index] as number;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
