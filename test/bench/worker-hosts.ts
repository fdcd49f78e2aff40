/** Part l: the hop to worker hosts: its cost beside a local stage, and what more hosts of a slow model bring. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BrokerLink } from '../../src/broker/broker-link.ts';
import { type JobEvent, JobEvents } from '../../src/broker/job-events.ts';
import { outcomeOfJob } from '../../src/broker/jobs.ts';
import type { RemotePlace } from '../../src/core/model.ts';
import { BATCH_LEASES, BatchQueue } from '../../src/hosts/batch-queue.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { startHost } from '../fixtures/headless.ts';
import { Redis } from '../fixtures/redis.ts';
import { Bed, type BedStage, batchesOf } from './bed.ts';
import { closedLoop } from './load.ts';
import { interleave, median, medianOf, percentile, sleep } from './measure.ts';
import { atLeast, figure, type Part, type PartResult, ratio, type Scale, type Table } from './report.ts';

const SECRET = 'of the benchmark';
const SIMULATED = fileURLToPath(new URL('./simulated-hosts.js', import.meta.url));
const BATCH = 32;
const SLEEP_MS = 50;
const HOSTS = [1, 2, 4] as const;
/** Numbers of simulated hosts, and ms that an item takes there. */
const MANY = [1, 10, 30, 100] as const;
const PACES = [500, 50] as const;
const LONE = 100;
/** Bytes of a batch, and of its result. */
const SIZES = [64, 4096, 16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024] as const;

/** Everything that the benchmark has started and must end. */
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
      const bytes = await measureBytes(redis, scale);
      const growth = await measureGrowth(redis.url, host, scale);
      const many = await measureMany(redis, started, scale);
      const [one = 0, , four = 0] = growth;
      return {
        tables: [hop, bytes, growthTable(growth), many],
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
  const local: BedStage = { modelet: 'echo' };
  const away: BedStage = { modelet: 'echo', remote };
  const batching = batchesOf(BATCH);
  const stages: Readonly<Record<string, BedStage[]>> = {
    'local, single items': [local],
    'remote, single items': [away],
    'two remote in a row, single items': [away, away],
    [`local, batches of ${BATCH}`]: [{ ...local, batching }],
    [`remote, batches of ${BATCH}`]: [{ ...away, batching }],
    [`two remote in a row, batches of ${BATCH}`]: [
      { ...away, batching },
      { ...away, batching },
    ],
  };
  host('hop');
  const bed = await Bed.start(stages);
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

/** One batch after the other crosses the queue and comes back, inside its job or beside it. */
async function measureBytes(redis: Redis, { rounds, seconds }: Scale): Promise<Table> {
  const ways = { inside: Number.POSITIVE_INFINITY, beside: 0 };
  const rows: string[][] = [];
  for (const size of SIZES) {
    const bytes = Buffer.alloc(size, 0xf0);
    const loops = Object.entries(ways).map(([way, largestInline]) => {
      return [way, () => crossings(redis, `${way}-${size}`, largestInline, bytes, seconds)] as const;
    });
    const results = await interleave(rounds, Object.fromEntries(loops));
    const columns = (['ms', 'cpuMs', 'serverMs'] as const).flatMap((name) => {
      return Object.keys(ways).map((way) => figure(medianOf(results[way] ?? [], (result) => result[name])));
    });
    rows.push([size < 1024 ? `${size} B` : `${size / 1024} KiB`, ...columns]);
  }
  const of = (what: string): string[] => Object.keys(ways).map((way) => `${what} ${way}`);
  return {
    title: 'l. Bytes inside the job of a batch or beside it: one batch there and its result back, of the same size',
    columns: ['bytes', ...of('ms'), ...of('CPU ms of both ends'), ...of('CPU ms of the server')],
    rows,
  };
}

interface Crossing {
  readonly ms: number;
  readonly cpuMs: number;
  readonly serverMs: number;
}

/** Returns the means of a batch. */
async function crossings(
  redis: Redis,
  name: string,
  largestInline: number,
  bytes: Buffer,
  seconds: number,
): Promise<Crossing> {
  const place = { url: redis.url, prefix: 'bench', queue: name, username: '', password: '', tls: null };
  const open = async (holder: string): Promise<[BatchQueue, BrokerLink]> => {
    const link = await BrokerLink.open(place, BATCH_LEASES, () => {});
    return [new BatchQueue(link, holder, largestInline), link];
  };
  const [[origin, link], [host]] = await Promise.all([open('origin'), open('host')]);
  let onEnded: (event: JobEvent) => void = () => {};
  const events = new JobEvents(link, (event) => onEnded(event));
  await events.start();
  const cross = async (id: string): Promise<void> => {
    const ended = new Promise<string>((resolve) => {
      onEnded = (event) => event.tag === 'ended' && event.id === id && resolve(event.outcome);
    });
    await origin.add(id, { codec: CODEC.bytes, bytes }, 0);
    const [taken] = await host.take(1);
    if (taken) await host.complete(taken.id, taken.payload);
    const { result } = outcomeOfJob(await ended);
    const back = result && (await origin.resultOf(id, result));
    if (back?.bytes.byteLength !== bytes.byteLength) throw new Error(`the result of ${id} is another one`);
    origin.settled(id);
  };
  const run = `${name}-${performance.now()}`;
  try {
    for (let index = 0; index < 20; index += 1) await cross(`${run}-warm-${index}`);
    const before = { at: performance.now(), cpu: process.cpuUsage(), server: await cpuMsOf(redis) };
    let count = 0;
    for (; performance.now() < before.at + 1000 * seconds; count += 1) await cross(`${run}-${count}`);
    const { user, system } = process.cpuUsage(before.cpu);
    return {
      ms: (performance.now() - before.at) / count,
      cpuMs: (user + system) / 1000 / count,
      serverMs: ((await cpuMsOf(redis)) - before.server) / count,
    };
  } finally {
    events.close();
    await Promise.all([origin.close(), host.close()]);
    // The results inside jobs fill the stream of events.
    await redis.run('FLUSHALL');
  }
}

/** Returns the CPU time that the server has used. */
async function cpuMsOf(redis: Redis): Promise<number> {
  const text = String(await redis.run('INFO', 'cpu'));
  const used = (field: string): number => Number(new RegExp(`^used_cpu_${field}:(.*)\r$`, 'm').exec(text)?.[1]);
  return 1000 * (used('sys') + used('user'));
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

/** Hosts whose model is a timer: what one server and one runtime can hand out. */
async function measureMany(redis: Redis, started: Started, { seconds }: Scale): Promise<Table> {
  const rows = MANY.map((count) => [String(count)]);
  for (const pace of PACES) {
    const name = `many-${pace}`;
    const children: ChildProcess[] = [];
    const start = (count: number): void => {
      const child = fork(SIMULATED, [redis.url, name, SECRET, String(count), String(pace)]);
      children.push(child);
      started.after(() => child.kill('SIGKILL'));
    };
    let running = 0;
    let bed: Bed | null = null;
    try {
      for (const [index, count] of MANY.entries()) {
        start(count - running);
        running = count;
        bed ??= await Bed.start({ slow: [{ modelet: 'sleep', init: { ms: pace }, remote: placeOn(redis.url, name) }] });
        const serving = bed;
        while (serving.snapshot().stages[0]?.ready !== count) await sleep(50);
        const before = { at: performance.now(), cpuMs: await cpuMsOf(redis) };
        const { itemsPerSecond } = await closedLoop(
          (value, settled) => serving.send('slow', value, settled),
          () => 1,
          { inFlight: 4 * count, seconds: 4 * seconds },
        );
        const cpu = ((await cpuMsOf(redis)) - before.cpuMs) / (performance.now() - before.at);
        rows[index]?.push(figure(itemsPerSecond), ratio((itemsPerSecond * pace) / 1000 / count), figure(100 * cpu));
      }
    } finally {
      await bed?.close();
    }
    for (const child of children) child.kill('SIGKILL');
  }
  return {
    title: 'l. Many hosts, simulated: a timer in the place of each worker, single items',
    columns: [
      'hosts',
      ...PACES.flatMap((pace) => [`items/s of ${pace} ms`, 'of what they can do', 'CPU % of the server']),
    ],
    rows,
    notes: ['The server, the runtime, its engine and all hosts share two cores.'],
  };
}
