/** Part b: what the runtime itself costs per item, with models that cost nothing. */
import { Piscina } from 'piscina';
import { decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { Bed, batchesOf } from './bed.ts';
import { closedLoop, type LoopResult, oneByOne, type Send } from './load.ts';
import { interleave, medianOf, percentile, threadCpu } from './measure.ts';
import { atLeast, atMost, type Budget, figure, type Part, type PartResult, ratio } from './report.ts';

const IN_FLIGHT = 256;
const BATCH = 32;
const LONE_REQUESTS = 600;
/** Between two lone requests, for all processes to fall asleep. */
const PAUSE_MS = 3;
const CODEC_ROUNDS = 20_000;
/** Run time of the model behind a response cache. */
const SLOW_MS = 5;

let made = 0;

/** About 200 bytes of JSON. */
function jsonValue(): unknown {
  made += 1;
  return {
    id: made,
    sensor: 'press-7',
    line: 'north',
    at: 1_760_000_000_000 + made,
    values: [21.5, 0.25, 1013.2, 48.75, 3.125, 7.5],
    tags: ['vibration', 'temperature', 'pressure'],
    status: { ok: true, mode: 'auto', shift: 2 },
    unit: 'metric',
  };
}

const pixels = Float32Array.from({ length: 784 }, (_, index) => index / 784);

const KEPT = jsonValue();

/** The same each time, for a stage that keeps results. */
function keptValue(): unknown {
  return KEPT;
}

/** 3 KiB. */
function tensorValue(): unknown {
  return pixels;
}

export const itemCost: Part = {
  letter: 'b',
  title: 'cost per item',
  async run({ rounds, seconds }) {
    const stage = { modelet: 'echo', batching: batchesOf(BATCH) };
    const bed = await Bed.start({
      batch: [stage],
      single: [{ modelet: 'echo' }],
      three: [stage, stage, stage],
      thread: [{ ...stage, isolation: 'thread' }],
      kept: [{ modelet: 'sleep', init: { ms: SLOW_MS }, cache: 100 }],
    });
    const piscina = new Piscina({
      filename: new URL('./piscina-task.js', import.meta.url).href,
      minThreads: 1,
      maxThreads: 1,
      concurrentTasksPerWorker: 1,
    });
    const through = (entry: string, makeValue: () => unknown) => () =>
      closedLoop((value, settled) => bed.send(entry, value, settled), makeValue, {
        inFlight: IN_FLIGHT,
        seconds,
        // Worker threads are counted with their engine.
        processes: { engine: bed.enginePid, workers: entry === 'thread' ? [] : bed.workerPids(entry) },
      });
    const perTask: Send = (value, settled) => void piscina.run(value).then(settled, settled);
    try {
      const loops = await interleave(rounds, {
        json: through('batch', jsonValue),
        tensor: through('batch', tensorValue),
        threadJson: through('thread', jsonValue),
        threadTensor: through('thread', tensorValue),
        single: through('single', jsonValue),
        three: through('three', jsonValue),
        kept: through('kept', keptValue),
        piscina: () => closedLoop(perTask, jsonValue, { inFlight: IN_FLIGHT, seconds }),
        codecJson: async () => codecAlone(jsonValue),
        codecTensor: async () => codecAlone(tensorValue),
      });
      const lone: Send = (value, settled) => bed.send('single', value, settled);
      const hit: Send = (value, settled) => bed.send('kept', value, settled);
      const waits = await interleave(Math.ceil(rounds / 2), {
        kept: () => oneByOne(hit, keptValue, LONE_REQUESTS),
        busy: () => oneByOne(lone, jsonValue, LONE_REQUESTS),
        idle: () => oneByOne(lone, jsonValue, LONE_REQUESTS / 2, PAUSE_MS),
      });
      return tell(loops, { busy: waits.busy.flat(), idle: waits.idle.flat(), kept: waits.kept.flat() });
    } finally {
      await Promise.all([bed.close(), piscina.destroy()]);
    }
  },
};

/** CPU of encoding and decoding one value on this thread, which no transport can do without. */
function codecAlone(makeValue: () => unknown): LoopResult {
  const options = { blame: 'invalid_input', maxBytes: 1 << 20 } as const;
  const turn = (): unknown => decodePayload(encodePayload(makeValue(), options));
  for (let index = 0; index < CODEC_ROUNDS / 4; index += 1) turn();
  const before = { at: performance.now(), cpu: threadCpu(process.pid) };
  for (let index = 0; index < CODEC_ROUNDS; index += 1) turn();
  const main = (threadCpu(process.pid) - before.cpu) / CODEC_ROUNDS;
  const itemsPerSecond = CODEC_ROUNDS / ((performance.now() - before.at) / 1000);
  return { itemsPerSecond, cpu: { main, engine: 0, workers: 0, all: main } };
}

type Loops = Record<
  | 'json'
  | 'tensor'
  | 'threadJson'
  | 'threadTensor'
  | 'single'
  | 'three'
  | 'kept'
  | 'piscina'
  | 'codecJson'
  | 'codecTensor',
  readonly LoopResult[]
>;
type Waits = Record<'busy' | 'idle' | 'kept', readonly number[]>;

function tell(loops: Loops, waits: Waits): PartResult {
  const all = (name: keyof Loops): number => medianOf(loops[name], ({ cpu }) => cpu.all);
  const main = (name: keyof Loops): number => medianOf(loops[name], ({ cpu }) => cpu.main);
  const rate = (name: keyof Loops): number => medianOf(loops[name], ({ itemsPerSecond }) => itemsPerSecond);
  const row = (what: string, name: keyof Loops): string[] => [
    what,
    String(Math.round(rate(name))),
    ...(['all', 'main', 'engine', 'workers'] as const).map((who) =>
      figure(medianOf(loops[name], ({ cpu }) => cpu[who])),
    ),
    ratio(rate(name) / rate('piscina')),
  ];
  const wait = (what: string, times: readonly number[]): string[] => [
    what,
    ...[50, 90, 99].map((percent) => figure(percentile(times, percent))),
  ];
  return {
    tables: [
      {
        title: `b. CPU per item, zero-cost model, ${IN_FLIGHT} in flight`,
        columns: ['what', 'items/s', 'µs CPU, all', 'Node-RED thread', 'engine', 'workers', 'items/s vs piscina'],
        rows: [
          row('200 B JSON, batch 32', 'json'),
          row('Float32Array 3 KiB, batch 32', 'tensor'),
          row('200 B JSON, batch 32, thread worker', 'threadJson'),
          row('Float32Array 3 KiB, batch 32, thread worker', 'threadTensor'),
          row('200 B JSON, batch size 1', 'single'),
          row('200 B JSON, batch 32, three fused stages', 'three'),
          row(`200 B JSON, hits of a response cache before a model of ${SLOW_MS} ms`, 'kept'),
          row('200 B JSON, a piscina task per item', 'piscina'),
          row('encode and decode alone, 200 B JSON', 'codecJson'),
          row('encode and decode alone, 3 KiB', 'codecTensor'),
        ],
        notes: [
          'One worker per stage; a worker that is a thread counts as part of the engine. "Node-RED thread" is the main thread of the benchmark: it makes, encodes and decodes the values.',
        ],
      },
      {
        title: 'b. One request at a time, zero-cost model, ms',
        columns: ['what', 'p50', 'p90', 'p99'],
        rows: [
          wait('one after the other', waits.busy),
          wait(`the same, hits of a response cache before a model of ${SLOW_MS} ms`, waits.kept),
          wait(`after a pause of ${PAUSE_MS} ms each (all processes asleep)`, waits.idle),
        ],
      },
    ],
    budgets: [
      ...perItem('CPU per item, JSON, batch 32', [all('json'), 10], [main('json'), 4]),
      ...perItem('CPU per item, Float32Array 3 KiB, batch 32', [all('tensor'), 13], [main('tensor'), 4]),
      ...perItem('CPU per item, batch size 1', [all('single'), 60], [main('single'), 15]),
      ...lone('one request at a time', waits.busy),
      ...lone(`one request after ${PAUSE_MS} ms of sleep`, waits.idle),
      atMost({
        what: 'each further fused stage, in all',
        value: (all('three') - all('json')) / 2,
        limit: 5,
        unit: ' µs',
        gates: true,
      }),
      atMost({
        what: "each further fused stage, Node-RED's thread",
        value: (main('three') - main('json')) / 2,
        limit: 0.5,
        unit: ' µs',
        gates: true,
        target: 'about 0 (<= 0.5 µs)',
      }),
      atLeast({
        what: 'items/s against a piscina task per item',
        value: rate('json') / rate('piscina'),
        limit: 3,
        unit: 'x',
        gates: true,
      }),
    ],
  };
}

function lone(what: string, times: readonly number[]): Budget[] {
  const unit = ' ms';
  return [
    atMost({ what: `${what}: overhead, p50`, value: percentile(times, 50), limit: 0.25, unit, gates: false }),
    atMost({ what: `${what}: overhead, p99`, value: percentile(times, 99), limit: 1.5, unit, gates: false }),
  ];
}

function perItem(what: string, [all, mostAll]: [number, number], [main, mostMain]: [number, number]): Budget[] {
  return [
    atMost({ what: `${what}, in all`, value: all, limit: mostAll, unit: ' µs', gates: true }),
    atMost({ what: `${what}, Node-RED's thread`, value: main, limit: mostMain, unit: ' µs', gates: true }),
  ];
}
