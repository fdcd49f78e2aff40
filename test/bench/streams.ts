/** Part n: 32 streams of one worker at a time: how late the first part comes, and what clients cost that stop reading. */
import { join } from 'node:path';
import { NodeRedProcess } from '../fixtures/node-red-process.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { node, RUNTIME, stage, tabAndRuntime } from './flows.ts';
import { interleave, median, medianOf, percentile, residentMb, sleep } from './measure.ts';
import { atMost, figure, type Part, type PartResult, ratio, type Scale, type Table } from './report.ts';
import { type Asked, OpenStreams, readStreams, type Streaming } from './stream-clients.ts';

const STREAMS = 32;
/** A part each 10 ms, as a fast remote model sends tokens. */
const TOKENS: Asked = { parts: 20, ms: 10, bytes: 20 };
/** Enough for any buffer to fill while a client does not read. */
const ENDLESS: Asked = { parts: 1_000_000, ms: 20, bytes: 16 * 1024 };
const LANGUAGES = ['JavaScript', 'Python'] as const;
const HOSTS = ["Node-RED's server", "engine's listener"] as const;

type Language = (typeof LANGUAGES)[number];
type Urls = Readonly<Record<(typeof HOSTS)[number], string>>;

const PACED = `return (async function* () {
  const part = 'x'.repeat(input.bytes);
  for (let made = 0; made < input.parts; made += 1) {
    await new Promise((resolve) => setTimeout(resolve, input.ms));
    yield part;
  }
})();`;

/** Both endpoints: one worker each, which runs all streams. */
function flows(): ReturnType<typeof tabAndRuntime> {
  const one = { workers: '1', concurrency: String(2 * STREAMS) };
  const python = { ...one, source: 'python', path: join(repositoryRoot, 'test/bench/modelets/paced_parts.py') };
  return [
    ...tabAndRuntime().map((found) => (found.id === RUNTIME ? { ...found, listen: '127.0.0.1:0' } : found)),
    ...LANGUAGES.flatMap((language) => [
      node(`${language}-in`, 'http in', [`${language}-stage`], { url: `/${language}`, method: 'post' }),
      stage(`${language}-stage`, `${language}-out`, PACED, language === 'Python' ? python : one),
      node(`${language}-out`, 'modelet-stream', [], { format: 'sse' }),
    ]),
  ];
}

export const streams: Part = {
  letter: 'n',
  title: 'streams at a time',
  async run(scale): Promise<PartResult> {
    const red = await NodeRedProcess.start(flows());
    try {
      const urls = { "Node-RED's server": red.url, "engine's listener": await listenerOf(red) };
      const latency = await firstParts(urls, scale);
      const memory: Table[] = [];
      const budgets = [...latency.budgets];
      for (const language of LANGUAGES) {
        const found = await stalling(red, `${urls["Node-RED's server"]}/${language}`, language, scale);
        memory.push(...found.tables);
        budgets.push(...found.budgets);
      }
      return { tables: [...latency.tables, ...memory], budgets };
    } finally {
      await red.end();
    }
  },
};

async function listenerOf(red: NodeRedProcess): Promise<string> {
  const { listener } = (await red.snapshot()).runtimes[0] ?? {};
  if (listener?.tag !== 'listening') throw new Error('the engine does not listen');
  return listener.url;
}

async function firstParts(urls: Urls, { rounds, seconds }: Scale): Promise<PartResult> {
  const ways = LANGUAGES.flatMap((language) =>
    HOSTS.map((host) => ({ language, host, url: `${urls[host]}/${language}` })),
  );
  const rows: string[][] = [];
  const worst = new Map<Language, number>();
  for (const { language, host, url } of ways) {
    await readStreams(url, TOKENS, STREAMS, 1);
    const found = await interleave(rounds, {
      alone: () => readStreams(url, TOKENS, 1, 2 * seconds),
      together: () => readStreams(url, TOKENS, STREAMS, 2 * seconds),
    });
    const late = (all: readonly Streaming[], percent: number): number =>
      medianOf(all, ({ firstMs }) => percentile(firstMs, percent));
    const times = late(found.together, 50) / late(found.alone, 50);
    worst.set(language, Math.max(times, worst.get(language) ?? 0));
    rows.push([
      `${language}, ${host}`,
      figure(late(found.alone, 50)),
      figure(late(found.together, 50)),
      ratio(times),
      figure(late(found.alone, 99)),
      figure(late(found.together, 99)),
      figure(medianOf(found.together, ({ streams: ended }) => (ended * TOKENS.parts) / (2 * seconds))),
    ]);
  }
  return {
    tables: [
      {
        title: `n. The first part of a stream, alone and as one of ${STREAMS} of one worker; a part each ${TOKENS.ms} ms`,
        columns: [
          'way',
          'alone p50 ms',
          `of ${STREAMS} p50 ms`,
          'of alone',
          'alone p99 ms',
          `of ${STREAMS} p99 ms`,
          'parts/s',
        ],
        rows,
        notes: [
          `A modelet waits ${TOKENS.ms} ms for each of the ${TOKENS.parts} parts, the first included, and takes no CPU for it.`,
        ],
      },
    ],
    budgets: [...worst].map(([language, times]) =>
      atMost({
        what: `first part of one of ${STREAMS} streams of a worker in ${language}, of one alone, p50`,
        ...{ value: times, limit: 2, unit: 'x', gates: true },
      }),
    ),
  };
}

interface Memory {
  readonly red: number;
  readonly engine: number;
  readonly worker: number;
}

async function stalling(red: NodeRedProcess, url: string, language: Language, { seconds }: Scale): Promise<PartResult> {
  const { runtimes } = await red.snapshot();
  const worker = runtimes[0]?.stages.find(({ id }) => id.startsWith(language))?.workers[0]?.pid as number;
  const pids = { red: red.pid, engine: runtimes[0]?.engine.pid as number, worker };
  const clients = new OpenStreams();
  await clients.open(url, ENDLESS, STREAMS, true);
  await sleep(4000 * seconds);
  const reading = await memoryOf(pids, seconds);
  clients.close();
  await clients.open(url, ENDLESS, STREAMS / 2, false);
  await clients.open(url, ENDLESS, STREAMS / 2, true);
  await sleep(4000 * seconds);
  const stalled = await memoryOf(pids, seconds);
  await sleep(12_000 * seconds);
  const later = await memoryOf(pids, seconds);
  clients.close();
  const all = ({ red, engine, worker }: Memory): number => red + engine + worker;
  const row = (what: string, read: (memory: Memory) => number): string[] => [
    what,
    ...[reading, stalled, later].map((memory) => figure(read(memory))),
  ];
  return {
    tables: [
      {
        title: `n. Memory with ${STREAMS} streams of a worker in ${language}, parts of 16 KiB each ${ENDLESS.ms} ms, MB resident`,
        columns: ['process', 'all read', 'half stalled', 'half stalled, four times as long'],
        rows: [
          row('Node-RED', (memory) => memory.red),
          row('engine', (memory) => memory.engine),
          row('worker', (memory) => memory.worker),
          row('together', all),
        ],
      },
    ],
    budgets: [
      atMost({
        what: `memory with half of ${STREAMS} clients stalled, of all reading, ${language}`,
        ...{ value: all(stalled) / all(reading), limit: 1.25, unit: 'x', gates: true },
      }),
      atMost({
        what: `memory while they stall four times as long, ${language}`,
        ...{ value: all(later) / all(stalled), limit: 1.05, unit: 'x', gates: true },
        target: 'flat (<= 1.05x)',
      }),
    ],
  };
}

/** The median memory of each process over some time. */
async function memoryOf(pids: Readonly<Record<keyof Memory, number>>, seconds: number): Promise<Memory> {
  const looks: Memory[] = [];
  for (let look = 0; look < 20; look += 1) {
    looks.push({ red: residentMb(pids.red), engine: residentMb(pids.engine), worker: residentMb(pids.worker) });
    await sleep(50 * seconds);
  }
  const middle = (read: (memory: Memory) => number): number => median(looks.map(read));
  return {
    red: middle(({ red }) => red),
    engine: middle(({ engine }) => engine),
    worker: middle(({ worker }) => worker),
  };
}
