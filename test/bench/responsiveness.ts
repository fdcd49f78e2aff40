/** Part d: does Node-RED stay responsive while models run, and do models run on while Node-RED is blocked? */
import { fileURLToPath } from 'node:url';
import { batcher, functionNode, sink, stage, tabAndRuntime } from './flows.ts';
import { interleave, median, medianOf } from './measure.ts';
import { postedPictures } from './posted-pictures.ts';
import { RedProcess } from './red-client.ts';
import type { Driven } from './red-process.ts';
import { atLeast, atMost, figure, type Part, type PartResult, ratio } from './report.ts';

const HEAVY_MS = 2;
const HEAVY_RATE = 250;
const LIGHT_MS = 0.05;
const LIGHT_RATE = 5000;
/** The blocked run: half of Node-RED's time is another node's, in pieces of 50 ms. */
const BLOCK_MS = 50;
const BATCH_MS = 5;
const IN_FLIGHT = 512;

const ENTRIES = ['pass-function', 'heavy-function', 'heavy-stage', 'light-function', 'light-batcher', 'sleep-batcher'];

const SLEEP_FILE = fileURLToPath(new URL('./modelets/sleep.js', import.meta.url));

export const responsiveness: Part = {
  letter: 'd',
  title: "Node-RED's event loop",
  async run(scale) {
    const { rounds, seconds } = scale;
    const red = await RedProcess.start();
    let loops: PartResult;
    try {
      await red.deploy(flows());
      const drive = (entry: string, load: object) => () =>
        red.drive({ entry, sink: 'sink', seconds: seconds * 2, ...load });
      const blocker = { node: 'blocker', everyMs: BLOCK_MS * 2 };
      // Code that has just been compiled and heaps that have just grown are not what is measured.
      for (const entry of ENTRIES) await red.drive({ entry, sink: 'sink', seconds: 1, ratePerSecond: HEAVY_RATE });
      const driven = await interleave(Math.max(2, rounds - 2), {
        idle: drive('sink', {}),
        nothing: drive('sink', { ratePerSecond: LIGHT_RATE }),
        pass: drive('pass-function', { ratePerSecond: LIGHT_RATE }),
        heavyFunction: drive('heavy-function', { ratePerSecond: HEAVY_RATE }),
        heavyStage: drive('heavy-stage', { ratePerSecond: HEAVY_RATE }),
        lightFunction: drive('light-function', { ratePerSecond: LIGHT_RATE }),
        lightStage: drive('light-batcher', { ratePerSecond: LIGHT_RATE }),
        free: drive('sleep-batcher', { inFlight: IN_FLIGHT }),
        blocked: drive('sleep-batcher', { inFlight: IN_FLIGHT, blocker }),
      });
      loops = tell(driven);
    } finally {
      await red.stop();
    }
    const posted = await postedPictures(scale);
    return { tables: [...loops.tables, ...posted.tables], budgets: [...loops.budgets, ...posted.budgets] };
  },
};

function flows(): Parameters<RedProcess['deploy']>[0] {
  const heavy = burn(HEAVY_MS);
  const light = burn(LIGHT_MS);
  return [
    ...tabAndRuntime(),
    sink('sink'),
    functionNode('pass-function', 'sink', 'return msg;'),
    functionNode('heavy-function', 'sink', `const input = msg.payload;\n${heavy}\nmsg.payload = x;\nreturn msg;`),
    stage('heavy-stage', 'sink', `${heavy}\nreturn x;`),
    functionNode('light-function', 'sink', `const input = msg.payload;\n${light}\nmsg.payload = x;\nreturn msg;`),
    batcher('light-batcher', 'light-stage'),
    stage('light-stage', 'sink', `${light}\nreturn x;`),
    batcher('sleep-batcher', 'sleep-stage'),
    stage('sleep-stage', 'sink', '', {
      source: 'file',
      path: SLEEP_FILE,
      init: JSON.stringify({ ms: BATCH_MS }),
    }),
    functionNode('blocker', '', `const end = Date.now() + ${BLOCK_MS};\nwhile (Date.now() < end);\nreturn null;`),
  ];
}

/** Code that computes for about so many ms on this machine: the same loop in a function node and in a stage. */
function burn(ms: number): string {
  const code = (turns: number): string =>
    `let x = input.n ?? 1;\nfor (let turn = 0; turn < ${turns}; turn += 1) x = (x * 1103515245 + 12345) % 2147483648;`;
  const trial = 2_000_000;
  const run = new Function('input', `${code(trial)} return x;`) as (input: object) => number;
  const times = Array.from({ length: 5 }, () => {
    const startedAt = performance.now();
    run({ n: 1 });
    return performance.now() - startedAt;
  });
  return code(Math.round((trial * ms) / Math.min(...times)));
}

type Name =
  | 'idle'
  | 'nothing'
  | 'pass'
  | 'heavyFunction'
  | 'heavyStage'
  | 'lightFunction'
  | 'lightStage'
  | 'free'
  | 'blocked';

function tell(driven: Record<Name, readonly Driven[]>): PartResult {
  const of = (name: Name, read: (driven: Driven) => number): number => medianOf(driven[name], read);
  const rate = (name: Name): number => of(name, ({ perSecond }) => perSecond);
  const late = (name: Name): number => of(name, ({ timers }) => timers.p99);
  const busy = (name: Name): number => of(name, ({ utilization }) => utilization) * 100;
  const row = (what: string, name: Name): string[] => [
    what,
    String(Math.round(rate(name))),
    figure(busy(name)),
    figure(of(name, ({ timers }) => timers.p50)),
    figure(late(name)),
    figure(of(name, ({ timers }) => timers.max)),
  ];
  const kept = median(driven.blocked.map(({ perSecond }, round) => perSecond / (driven.free[round]?.perSecond ?? 0)));
  const heavy = `${HEAVY_MS} ms of work, ${HEAVY_RATE}/s`;
  const light = `${LIGHT_MS} ms of work, ${LIGHT_RATE}/s`;
  return {
    tables: [
      {
        title: "d. Node-RED's event loop while the same code runs in a function node and in a stage",
        columns: ['what', 'done/s', 'loop busy %', 'timer late p50 ms', 'p99', 'max'],
        rows: [
          row('idle', 'idle'),
          row(`messages only, ${LIGHT_RATE}/s`, 'nothing'),
          row(`an empty function node, ${LIGHT_RATE}/s`, 'pass'),
          row(`${heavy}, in a function node`, 'heavyFunction'),
          row(`${heavy}, in a stage`, 'heavyStage'),
          row(`${light}, in a function node`, 'lightFunction'),
          row(`${light}, in a stage behind a batcher`, 'lightStage'),
        ],
        notes: ['"timer late": how much later than asked a 1 ms timer fires in Node-RED\'s process.'],
      },
      {
        title: `d. A stage at full load (${BATCH_MS} ms per batch of 32, ${IN_FLIGHT} in flight) while another node blocks Node-RED`,
        columns: ['Node-RED', 'done/s', 'kept'],
        rows: [
          ['free', String(Math.round(rate('free'))), ''],
          [`blocked ${BLOCK_MS} of every ${BLOCK_MS * 2} ms`, String(Math.round(rate('blocked'))), ratio(kept)],
        ],
      },
    ],
    budgets: [
      atMost({
        what: `Node-RED's event loop busy while ${LIGHT_RATE} items/s flow`,
        value: busy('lightStage'),
        limit: 10,
        unit: ' %',
        gates: true,
      }),
      atMost({
        what: '1 ms timer p99 while they flow, above idle',
        value: late('lightStage') - late('idle'),
        limit: 1,
        unit: ' ms',
        gates: false,
      }),
      atLeast({
        what: "Node-RED's loop blocked 50 %: throughput kept",
        value: kept * 100,
        limit: 95,
        unit: ' %',
        gates: true,
      }),
    ],
  };
}
