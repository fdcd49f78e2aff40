/** Part l: the hop to worker hosts: its cost beside a local stage, and what more hosts of a slow model bring. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RemotePlace } from '../../src/core/model.ts';
import { startHost } from '../fixtures/headless.ts';
import { Redis } from '../fixtures/redis.ts';
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop } from './load.ts';
import { interleave, median, medianOf, percentile, sleep } from './measure.ts';
import { atLeast, figure, type Part, type PartResult, ratio, type Scale, type Table } from './report.ts';

const SECRET = 'of the benchmark';
const BATCH = 32;
const SLEEP_MS = 50;
const HOSTS = [1, 2, 4] as const;
const LONE = 100;

/** What the benchmark has started and must end. */
class Started {
  readonly #ends: (() => unknown)[] = [];

  after(end: () => unknown): void {
    this.#ends.push(end);
  }

  async end(): Promise<void> {
    for (const end of this.#ends.reverse()) await end();
  }
}

export const workerHosts: Part = {
  letter: 'l',
  title: 'worker hosts',
  async run(scale): Promise<PartResult> {
    const started = new Started();
    try {
      const redis = await Redis.start();
      started.after(() => redis.kill());
      const folder = mkdtempSync(join(tmpdir(), 'modelet-bench-'));
      started.after(() => rmSync(folder, { recursive: true, force: true }));
      const secretFile = join(folder, 'secret');
      writeFileSync(secretFile, SECRET);
      const host = (runtime: string): unknown =>
        startHost(started, '--broker', redis.url, '--runtime', runtime, '--secret-file', secretFile);
      const hop = await measureHop(redis.url, host, scale);
      const growth = await measureGrowth(redis.url, host, scale);
      const [one = 0, , four = 0] = growth;
      return {
        tables: [hop, growthTable(growth)],
        budgets: [atLeast({ what: 'l: four hosts beside one', value: four / one, limit: 3.4, unit: 'x', gates: true })],
      };
    } finally {
      await started.end();
    }
  },
};

function placeOn(url: string, runtime: string): RemotePlace {
  return { url, prefix: 'modelet', username: '', password: '', tls: null, runtime, secret: SECRET };
}

async function measureHop(url: string, host: (runtime: string) => unknown, { rounds, seconds }: Scale): Promise<Table> {
  const remote = placeOn(url, 'hop');
  const stages: Readonly<Record<string, BedStage>> = {
    'local, single items': { modelet: 'echo' },
    'remote, single items': { modelet: 'echo', remote },
    [`local, batches of ${BATCH}`]: { modelet: 'echo', batching: batchesOf(BATCH) },
    [`remote, batches of ${BATCH}`]: { modelet: 'echo', batching: batchesOf(BATCH), remote },
  };
  host('hop');
  const bed = await Bed.start(Object.fromEntries(Object.entries(stages).map(([entry, stage]) => [entry, [stage]])));
  try {
    const loops = Object.keys(stages).map((entry) => [
      entry,
      () =>
        closedLoop(
          (value, settled) => bed.send(entry, value, settled),
          () => 'x'.repeat(200),
          { inFlight: 4 * BATCH, seconds },
        ),
    ]);
    const results = await interleave(
      rounds,
      Object.fromEntries(loops) as Record<string, () => ReturnType<typeof closedLoop>>,
    );
    const rows: string[][] = [];
    for (const entry of Object.keys(stages)) {
      const perSecond = medianOf(results[entry] ?? [], ({ itemsPerSecond }) => itemsPerSecond);
      const lone = await loneTimes(bed, entry);
      rows.push([entry, figure(perSecond), figure(median(lone)), figure(percentile(lone, 99))]);
    }
    return {
      title: 'l. The hop to a worker host on the same machine: items of 200 bytes, a model that does nothing',
      columns: ['stage', 'items/s', 'alone: p50 ms', 'alone: p99 ms'],
      rows,
      notes: ['One worker. The server, the host and its engine share the cores with the runtime.'],
    };
  } finally {
    await bed.close();
  }
}

async function loneTimes(bed: Bed, entry: string): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < LONE; index += 1) {
    const before = performance.now();
    await bed.request(entry, 'x');
    times.push(performance.now() - before);
  }
  return times;
}

/** Returns the items per second of each number of hosts. */
async function measureGrowth(url: string, host: (runtime: string) => unknown, { seconds }: Scale): Promise<number[]> {
  const stage: BedStage = { modelet: 'sleep', init: { ms: SLEEP_MS }, remote: placeOn(url, 'growth') };
  const perSecond: number[] = [];
  let running = 0;
  let bed: Bed | null = null;
  try {
    for (const count of HOSTS) {
      for (; running < count; running += 1) host('growth');
      bed ??= await Bed.start({ slow: [stage] });
      const serving = bed;
      while (serving.snapshot().stages[0]?.ready !== count) await sleep(50);
      const loop = await closedLoop(
        (value, settled) => serving.send('slow', value, settled),
        () => 1,
        { inFlight: 64, seconds: 4 * seconds },
      );
      perSecond.push(loop.itemsPerSecond);
    }
  } finally {
    await bed?.close();
  }
  return perSecond;
}

function growthTable(perSecond: readonly number[]): Table {
  const [one = Number.NaN] = perSecond;
  return {
    title: `l. More hosts: a model that sleeps ${SLEEP_MS} ms for each item, one worker a host`,
    columns: ['hosts', 'items/s', 'beside one host', 'of what the model can do'],
    rows: HOSTS.map((count, index) => {
      const found = perSecond[index] ?? Number.NaN;
      return [String(count), figure(found), ratio(found / one), ratio((found * SLEEP_MS) / 1000 / count)];
    }),
  };
}
