/** Every metric of the exposition: its name, its meaning, and how it is read from the state of runtimes and gates. */
import type { HistogramReading } from '../../core/readings.ts';
import type { DurationReadings } from '../meters/duration-meter.ts';
import { DURATION_BOUNDS, SIZE_BOUNDS } from '../meters/histogram.ts';
import type { Described, Sample } from '../meters/metric.ts';
import type { RuntimeSnapshot, StageSnapshot } from '../views/snapshot.ts';
import { GATES, type GateMetric } from './gate-metrics.ts';

/** A runtime at the moment of a scrape. */
export interface Measured {
  readonly snapshot: RuntimeSnapshot;
  readonly durations: DurationReadings;
}

export interface RuntimeMetric extends Described {
  /** Returns the series of one runtime. */
  read(runtime: Measured): readonly Sample[];
}

export type Metric = RuntimeMetric | GateMetric;

const SECONDS_PER_MS = 1 / 1000;
const DURATION_BOUNDS_SECONDS: readonly number[] = DURATION_BOUNDS.map((ms) => ms / 1000);
const CIRCUIT_STATES = ['closed', 'open', 'half-open'] as const;
const PROCESS_STATES = ['startup', 'ready', 'error', 'shutdown', 'dead'] as const;

function ofRuntime(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  read: (runtime: Measured) => number,
): RuntimeMetric {
  return { name, type, help, labels: [], read: (runtime) => [{ labels: {}, value: read(runtime) }] };
}

/** Creates a metric with one series for each key of an object; the key is the label's value. */
function byKey(
  type: 'counter' | 'gauge',
  [name, label]: readonly [string, string],
  help: string,
  read: (runtime: Measured) => Readonly<Record<string, number>>,
): RuntimeMetric {
  return {
    name,
    type,
    help,
    labels: [label],
    read: (runtime) => Object.entries(read(runtime)).map(([key, value]) => ({ labels: { [label]: key }, value })),
  };
}

function ofStage(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  read: (stage: StageSnapshot) => number,
): RuntimeMetric {
  return {
    name,
    type,
    help,
    labels: ['stage'],
    read: ({ snapshot }) => snapshot.stages.map((stage) => ({ labels: { stage: stage.name }, value: read(stage) })),
  };
}

function ofStageByKey(
  type: 'counter' | 'gauge',
  [name, label]: readonly [string, string],
  help: string,
  read: (stage: StageSnapshot) => Readonly<Record<string, number>>,
): RuntimeMetric {
  return {
    name,
    type,
    help,
    labels: ['stage', label],
    read: ({ snapshot }) =>
      snapshot.stages.flatMap((stage) =>
        Object.entries(read(stage)).map(([key, value]) => ({ labels: { stage: stage.name, [label]: key }, value })),
      ),
  };
}

function durationOfStage(name: string, help: string, read: (stage: StageSnapshot) => HistogramReading): RuntimeMetric {
  return {
    name,
    type: 'histogram',
    help,
    labels: ['stage'],
    read: ({ snapshot }) =>
      snapshot.stages.map((stage) => ({ labels: { stage: stage.name }, ...inSeconds(read(stage)) })),
  };
}

function inSeconds({ counts, sum }: HistogramReading): { bounds: readonly number[]; reading: HistogramReading } {
  return { bounds: DURATION_BOUNDS_SECONDS, reading: { counts, sum: sum * SECONDS_PER_MS } };
}

/** Counts the workers in each state, including states with no worker. */
function workerStates({ workers }: StageSnapshot): Record<string, number> {
  return Object.fromEntries(
    PROCESS_STATES.map((state) => [state, workers.filter((worker) => worker.state === state).length]),
  );
}

const REQUESTS: readonly RuntimeMetric[] = [
  byKey(
    'counter',
    ['modelet_requests_total', 'code'],
    'Requests that have ended: ok, or with this error code',
    ({ snapshot }) => snapshot.requests,
  ),
  {
    name: 'modelet_request_duration_seconds',
    type: 'histogram',
    help: 'From the opening of a request to its end; requests that are refused at once are not in it',
    labels: ['code'],
    read: ({ durations }) =>
      Object.entries(durations).map(([code, reading]) => ({ labels: { code }, ...inSeconds(reading) })),
  },
  ofRuntime('gauge', 'modelet_backlog', 'Open requests', ({ snapshot }) => snapshot.backlog),
  ofRuntime('gauge', 'modelet_capacity', 'Most open requests', ({ snapshot }) => snapshot.capacity),
  ofRuntime(
    'counter',
    'modelet_late_outcomes_total',
    'Outcomes that came after their request had ended',
    ({ snapshot }) => snapshot.lateOutcomes,
  ),
  ofRuntime(
    'counter',
    'modelet_deploys_total',
    'Plans that deploys have made',
    ({ snapshot }) => snapshot.deploys.count,
  ),
  ofRuntime(
    'counter',
    'modelet_deploy_handovers_total',
    'Requests that were open while a deploy replaced the nodes',
    ({ snapshot }) => snapshot.deploys.handedOver,
  ),
];

const STAGES: readonly RuntimeMetric[] = [
  ofStage('gauge', 'modelet_queue_length', 'Items that wait in the queue', (stage) => stage.queue),
  ofStage('gauge', 'modelet_queue_capacity', 'Most items that wait in the queue', (stage) => stage.capacity),
  durationOfStage(
    'modelet_queue_wait_seconds',
    'Per item: waiting because no worker was free',
    ({ reading }) => reading.queueWait,
  ),
  durationOfStage(
    'modelet_batch_wait_seconds',
    'Per item: waiting for its batch to fill while a worker was free',
    ({ reading }) => reading.batchWait,
  ),
  durationOfStage('modelet_run_seconds', 'Per item: the run of the batch that held it', ({ reading }) => reading.run),
  {
    name: 'modelet_batch_size',
    type: 'histogram',
    help: 'Per batch: its items',
    labels: ['stage'],
    read: ({ snapshot }) =>
      snapshot.stages.map(({ name, reading }) => ({
        labels: { stage: name },
        bounds: SIZE_BOUNDS,
        reading: reading.batchSize,
      })),
  },
  ofStageByKey(
    'counter',
    ['modelet_batches_total', 'reason'],
    'Batches by what made them leave: full, timer, idle (a worker took what was there), gap, retry (an item runs again after its worker died)',
    ({ reading }) => reading.reasons,
  ),
  ofStage('counter', 'modelet_items_total', 'Items that went to a worker', ({ reading }) => reading.items),
  ofStageByKey(
    'counter',
    ['modelet_items_unserved_total', 'code'],
    'Items that no worker of the stage answered, by the error they ended with',
    ({ reading }) => reading.unserved,
  ),
  ofStageByKey(
    'counter',
    ['modelet_cache_requests_total', 'result'],
    'Requests to a stage that keeps results: hit (answered at once), miss (runs), joined (shares the run of another)',
    ({ reading }) => reading.cache,
  ),
  ofStage('gauge', 'modelet_cache_entries', 'Results that are kept', ({ cache }) => cache.entries),
  ofStage('gauge', 'modelet_cache_bytes', 'Bytes of the results that are kept', ({ cache }) => cache.bytes),
  ofStage(
    'counter',
    'modelet_taps_total',
    'Copies of values made for nodes that look on',
    ({ reading }) => reading.taps,
  ),
  ofStage(
    'counter',
    'modelet_parts_total',
    'Parts of results that were sent on before the rest was there',
    ({ reading }) => reading.parts,
  ),
];

function ofWorker(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  read: (worker: StageSnapshot['workers'][number]) => number | null,
): RuntimeMetric {
  return {
    name,
    type,
    help,
    labels: ['stage', 'worker'],
    read: ({ snapshot }) =>
      snapshot.stages.flatMap((stage) =>
        stage.workers.flatMap((worker) => {
          const value = read(worker);
          return value === null ? [] : [{ labels: { stage: stage.name, worker: String(worker.index) }, value }];
        }),
      ),
  };
}

const WORKERS: readonly RuntimeMetric[] = [
  ofStage('gauge', 'modelet_workers', 'Workers that the stage has', ({ workers }) => workers.length),
  ofStage('gauge', 'modelet_workers_ready', 'Workers that serve', (stage) => stage.ready),
  ofStage('gauge', 'modelet_workers_busy', 'Workers that run a batch', (stage) => stage.busy),
  ofStageByKey('gauge', ['modelet_worker_state', 'state'], 'Workers in this state', workerStates),
  ofStageByKey(
    'counter',
    ['modelet_worker_restarts_total', 'cause'],
    'Workers that ended and were replaced: died, not_started, run_timeout, recycled (old or large), asked',
    ({ reading }) => reading.restarts,
  ),
  ofStageByKey(
    'gauge',
    ['modelet_circuit_state', 'state'],
    '1 for the state of the circuit: open refuses requests after repeated deaths, half-open tries one worker',
    ({ circuit }) => Object.fromEntries(CIRCUIT_STATES.map((state) => [state, circuit === state ? 1 : 0])),
  ),
  ofStage(
    'counter',
    'modelet_busy_seconds_total',
    'Time spent running batches, of all workers together',
    ({ reading }) => reading.busyMs * SECONDS_PER_MS,
  ),
  ofWorker(
    'gauge',
    'modelet_worker_rss_bytes',
    'Memory of a worker; of a thread, its heap and buffers',
    (worker) => worker.rssBytes,
  ),
  ofWorker(
    'counter',
    'modelet_worker_cpu_seconds_total',
    'Processor time of a worker since it started; of a thread, the time that its event loop was busy',
    (worker) => (worker.cpuMs === null ? null : worker.cpuMs * SECONDS_PER_MS),
  ),
];

const ENGINE: readonly RuntimeMetric[] = [
  byKey('gauge', ['modelet_engine_state', 'state'], '1 for the state that the engine is in', ({ snapshot }) =>
    Object.fromEntries(PROCESS_STATES.map((state) => [state, snapshot.engine.state === state ? 1 : 0])),
  ),
  byKey(
    'counter',
    ['modelet_engine_restarts_total', 'cause'],
    'Engines that ended and were replaced: died, not_started',
    ({ snapshot }) => ({ died: snapshot.engine.deaths.serving, not_started: snapshot.engine.deaths.starting }),
  ),
  ofRuntime('gauge', 'modelet_engine_rss_bytes', 'Memory of the engine', ({ snapshot }) => snapshot.engine.rssBytes),
  {
    name: 'modelet_frames_total',
    type: 'counter',
    help: 'Frames between Node-RED and the engine',
    labels: ['direction', 'type'],
    read: ({ snapshot }) =>
      Object.entries(snapshot.frames).flatMap(([direction, byType]) =>
        Object.entries(byType).map(([type, { frames }]) => ({ labels: { direction, type }, value: frames })),
      ),
  },
  byKey(
    'counter',
    ['modelet_channel_bytes_total', 'direction'],
    'Bytes between Node-RED and the engine',
    ({ snapshot }) => ({ ...snapshot.bytes }),
  ),
];

export const METRICS: readonly Metric[] = [...REQUESTS, ...STAGES, ...WORKERS, ...ENGINE, ...GATES];
