/** Every metric of the exposition: its name, its meaning, and how it is read from the state of runtimes and gates. */
import type { StageSnapshot } from '../views/snapshot.ts';
import {
  byKey,
  durationOfStage,
  durations,
  type Metric,
  ofGate,
  ofGateByKey,
  ofRuntime,
  ofStage,
  ofStageByKey,
  ofWorker,
  perRuntime,
  sizeOfStage,
} from './metric.ts';

const SECONDS_PER_MS = 1 / 1000;
const CIRCUIT_STATES = ['closed', 'open', 'half-open'] as const;
const PROCESS_STATES = ['startup', 'ready', 'error', 'shutdown', 'dead'] as const;

/** Counts the workers in each state, including states with no worker. */
function workerStates({ workers }: StageSnapshot): Record<string, number> {
  return Object.fromEntries(
    PROCESS_STATES.map((state) => [state, workers.filter((worker) => worker.state === state).length]),
  );
}

const REQUESTS: readonly Metric[] = [
  byKey(
    'counter',
    ['modelet_requests_total', 'code'],
    'Requests that have ended: ok, or with this error code',
    ({ snapshot }) => snapshot.requests,
  ),
  durations(
    ['modelet_request_duration_seconds', 'code'],
    'From the opening of a request to its end; requests that are refused at once are not in it',
    (runtime) => runtime.durations,
  ),
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

const STAGES: readonly Metric[] = [
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
  sizeOfStage('modelet_batch_size', 'Per batch: its items', ({ reading }) => reading.batchSize),
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
    'Requests to a stage that keeps results: hit (answered from the cache), miss (runs), joined (shares the run of another)',
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

const WORKERS: readonly Metric[] = [
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

const ENGINE: readonly Metric[] = [
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
  perRuntime(
    'counter',
    'modelet_frames_total',
    'Frames between Node-RED and the engine',
    ['direction', 'type'],
    ({ snapshot }) =>
      Object.entries(snapshot.frames).flatMap(([direction, byType]) =>
        Object.entries(byType).map(([type, { frames }]) => ({ labels: { direction, type }, value: frames })),
      ),
  ),
  byKey(
    'counter',
    ['modelet_channel_bytes_total', 'direction'],
    'Bytes between Node-RED and the engine',
    ({ snapshot }) => ({ ...snapshot.bytes }),
  ),
];

const GATES: readonly Metric[] = [
  ofGate('gauge', 'modelet_gate_open', '1 while the gate lets requests in, as far as N goes', ({ open }) =>
    Number(open),
  ),
  ofGate(
    'gauge',
    'modelet_gate_budget',
    'D: share of the capacity that is free; 0 where it is not known',
    ({ budget }) => budget,
  ),
  ofGate('gauge', 'modelet_gate_baseline', 'B: share of the capacity that is kept free', ({ baseline }) => baseline),
  ofGate('gauge', 'modelet_gate_quota', "N, in the gate's unit", ({ quota }) => quota),
  ofGate(
    'gauge',
    'modelet_gate_in_flight',
    "Admitted and not ended, in the gate's unit",
    ({ inFlightCost }) => inFlightCost,
  ),
  ofGate('gauge', 'modelet_gate_waiting', 'Requests that wait to be let in', ({ waiting }) => waiting),
  ofGateByKey(
    'counter',
    ['modelet_gate_decisions_total', 'reason'],
    'Requests by what the gate decided: admitted, admitted_late (it has waited), refused_closed, refused_full, expired, dropped, cancelled',
    ({ decisions }) => decisions,
  ),
  ofGate(
    'counter',
    'modelet_gate_lost_total',
    'Admitted requests of which nothing was seen any more',
    ({ lost }) => lost,
  ),
  ofGate('gauge', 'modelet_gate_source_available', '1 if the last reading of the source gave a number', ({ source }) =>
    Number(source.available),
  ),
  ofGate('gauge', 'modelet_gate_sample_age_seconds', 'Age of the last number that was read', ({ source }) =>
    source.ageMs === null ? null : source.ageMs / 1000,
  ),
  ofGate(
    'gauge',
    'modelet_gate_dead_letters',
    'Items of a durable gate that have used up their attempts',
    ({ store }) => (store === null ? null : store.dead),
  ),
  ofGate('gauge', 'modelet_gate_store_available', '1 if the store of a durable gate can be used', ({ store }) =>
    store === null ? null : Number(store.error === null),
  ),
];

export const METRICS: readonly Metric[] = [...REQUESTS, ...STAGES, ...WORKERS, ...ENGINE, ...GATES];
