/** Part r: how the cost of an item grows with a pipeline: stages, workers, requests in flight, bytes, routes and keys. */
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop, type LoopResult } from './load.ts';
import { interleave, medianOf } from './measure.ts';
import { atMost, type Budget, figure, type Part, type PartResult, ratio, type Scale, type Table } from './report.ts';

const BATCHED: BedStage = { modelet: 'echo', batching: batchesOf(32) };
const IN_FLIGHT = 256;
const WARM_UP_SECONDS = 2;
/**
 * With more stages or workers, so many for each: else batches would become smaller, which costs more. Each has only its part
 * of the load, so that its code is compiled later.
 */
const FOR_EACH = {
  inFlight: (size: number): number => size * IN_FLIGHT,
  warmUpSeconds: (size: number): number => Math.max(WARM_UP_SECONDS, size),
};
/** Of large payloads: enough to keep a worker busy. */
const FEW_IN_FLIGHT = 4;
const VALUE = { sensor: 'press-7', values: [21.5, 0.25, 1013.2, 48.75], status: { ok: true, mode: 'auto' } };

/** One thing that grows, while all else stays. */
interface Growth {
  readonly what: string;
  readonly sizes: readonly number[];
  /** The routes at this size. The load goes through `main`. */
  routes(size: number): Readonly<Record<string, readonly BedStage[]>>;
  /** Default: 256. */
  inFlight?(size: number): number;
  /** Load before the measuring begins. Default: 2 s. */
  warmUpSeconds?(size: number): number;
  /** Default: about 100 bytes of JSON. */
  value?(size: number): unknown;
  /** Key of a request by its number. Default: none. */
  key?(size: number, number: number): string;
}

const STAGES: Growth = {
  what: 'stages in a row',
  sizes: [1, 2, 4, 8],
  routes: (size) => ({ main: Array<BedStage>(size).fill(BATCHED) }),
  ...FOR_EACH,
};
const WORKERS: Growth = {
  what: 'workers of a stage',
  sizes: [1, 2, 4, 8, 16],
  routes: (size) => ({ main: [{ ...BATCHED, workers: String(size) }] }),
  ...FOR_EACH,
};
const FLIGHT: Growth = {
  what: 'requests in flight',
  sizes: [1, 16, 256, 4096],
  routes: () => ({ main: [BATCHED] }),
  inFlight: (size) => size,
};
const BYTES: Growth = {
  what: 'bytes of a payload',
  sizes: [100, 1e3, 1e4, 1e5, 1e6, 1e7],
  routes: () => ({ main: [{ modelet: 'echo' }] }),
  inFlight: () => FEW_IN_FLIGHT,
  value: (size) => Buffer.alloc(size, 7),
};
const ROUTES: Growth = {
  what: 'routes of a runtime',
  sizes: [1, 10, 50, 200],
  // The others sleep: what their workers would do is another matter.
  routes: (size) => ({
    main: [BATCHED],
    ...Object.fromEntries(
      Array.from({ length: size - 1 }, (_, at) => [`other${at}`, [{ ...BATCHED, workers: '0-1' }]]),
    ),
  }),
};
const KEYS: Growth = {
  what: 'keys of a stage',
  sizes: [10, 100, 1000, 10_000],
  routes: () => ({ main: [{ ...BATCHED, isKeyed: true }] }),
  key: (size, number) => `key ${number % size}`,
};

export const growth: Part = {
  letter: 'r',
  title: 'growth: cost per item by stages, workers, requests in flight, bytes, routes and keys',
  async run(scale): Promise<PartResult> {
    const costs = new Map<Growth, ReadonlyMap<number, Cost>>();
    for (const one of [STAGES, WORKERS, FLIGHT, BYTES, ROUTES, KEYS]) costs.set(one, await measure(one, scale));
    const cost = (one: Growth, size: number): number => costs.get(one)?.get(size)?.cpu.all ?? Number.NaN;
    return { tables: [...costs].map(([one, bySize]) => tableOf(one, bySize)), budgets: budgetsOf(cost) };
  },
};

interface Cost extends LoopResult {
  /** Items in a batch, of all stages and rounds. */
  readonly meanBatch: number;
}

/** Returns the medians of all rounds by size. */
async function measure(one: Growth, { rounds, seconds }: Scale): Promise<Map<number, Cost>> {
  const beds = new Map<string, Bed>();
  try {
    for (const size of one.sizes) beds.set(String(size), await Bed.start(one.routes(size)));
    for (const [size, bed] of beds) {
      await load(one, Number(size), bed, one.warmUpSeconds?.(Number(size)) ?? WARM_UP_SECONDS);
    }
    const subjects = [...beds].map(([size, bed]) => [size, () => load(one, Number(size), bed, seconds)] as const);
    const results = await interleave(rounds, Object.fromEntries(subjects));
    return new Map(
      one.sizes.map((size) => {
        const bed = beds.get(String(size)) as Bed;
        return [size, { ...middleOf(results[size] ?? []), meanBatch: meanBatchOf(bed) }];
      }),
    );
  } finally {
    await Promise.all([...beds.values()].map((bed) => bed.close()));
  }
}

function load(one: Growth, size: number, bed: Bed, seconds: number): Promise<LoopResult> {
  const value = one.value?.(size) ?? VALUE;
  let number = 0;
  return closedLoop(
    (sent, settled) => {
      number += 1;
      bed.send('main', sent, settled, one.key ? { key: one.key(size, number) } : {});
    },
    () => value,
    {
      inFlight: one.inFlight?.(size) ?? IN_FLIGHT,
      seconds,
      processes: { engine: bed.enginePid, workers: bed.workerPids('main') },
    },
  );
}

function meanBatchOf(bed: Bed): number {
  const readings = bed.snapshot().stages.map(({ reading }) => reading);
  const sum = (read: (reading: (typeof readings)[number]) => number): number =>
    readings.reduce((total, reading) => total + read(reading), 0);
  return sum(({ items }) => items) / sum(({ batches }) => batches);
}

function middleOf(results: readonly LoopResult[]): LoopResult {
  const middle = (read: (cpu: LoopResult['cpu']) => number): number => medianOf(results, ({ cpu }) => read(cpu));
  return {
    itemsPerSecond: medianOf(results, ({ itemsPerSecond }) => itemsPerSecond),
    cpu: {
      main: middle(({ main }) => main),
      engine: middle(({ engine }) => engine),
      workers: middle(({ workers }) => workers),
      all: middle(({ all }) => all),
    },
  };
}

function tableOf({ what, sizes }: Growth, bySize: ReadonlyMap<number, Cost>): Table {
  const first = bySize.get(sizes[0] as number)?.cpu.all ?? Number.NaN;
  const rows = [...bySize].map(([size, { itemsPerSecond, cpu, meanBatch }]) => [
    size.toLocaleString('en'),
    figure(itemsPerSecond),
    ...[cpu.all, cpu.main, cpu.engine, cpu.workers].map(figure),
    ratio(cpu.all / first),
    figure(meanBatch),
  ]);
  return {
    title: `r. CPU per item by ${what}`,
    columns: [
      what,
      'items/s',
      'µs CPU, all',
      'Node-RED thread',
      'engine',
      'workers',
      'against the first',
      'items in a batch',
    ],
    rows,
  };
}

function budgetsOf(cost: (one: Growth, size: number) => number): Budget[] {
  const flat = (what: string, value: number, limit: number): Budget =>
    atMost({ what: `r: ${what}`, value, limit, unit: 'x', gates: true });
  return [
    flat('a stage of 8 against one of 4', cost(STAGES, 8) / cost(STAGES, 4) / 2, 1.3),
    flat('16 workers against 2', cost(WORKERS, 16) / cost(WORKERS, 2), 1.5),
    flat('4,096 requests in flight against 256', cost(FLIGHT, 4096) / cost(FLIGHT, 256), 1.5),
    flat('a byte of 10 MB against one of 1 MB', cost(BYTES, 1e7) / cost(BYTES, 1e6) / 10, 1.3),
    flat('200 routes against 1', cost(ROUTES, 200) / cost(ROUTES, 1), 1.2),
    flat('10,000 keys against 100', cost(KEYS, 10_000) / cost(KEYS, 100), 1.5),
  ];
}
