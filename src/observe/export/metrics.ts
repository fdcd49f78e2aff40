/** Every metric of the exposition: its name, its meaning, and how it is read from the state of runtimes and gates. */
import type { FrameCounts, StageSnapshot } from '../views/snapshot.ts';
import { type Metric, ofGate, ofRuntime, ofStage, ofVersion, ofWorker } from './metric.ts';

const SECONDS_PER_MS = 1 / 1000;
const CIRCUIT_STATES = ['closed', 'open', 'half-open'] as const;
const PROCESS_STATES = ['startup', 'ready', 'error', 'shutdown', 'dead'] as const;

/** Counts the workers in each state, including states with no worker. */
function workerStates({ workers }: StageSnapshot): Record<string, number> {
  return Object.fromEntries(
    PROCESS_STATES.map((state) => [state, workers.filter((worker) => worker.state === state).length]),
  );
}

function framesIn(counts: FrameCounts): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).map(([type, { frames }]) => [type, frames]));
}

const REQUESTS: readonly Metric[] = [
  ofRuntime(
    'counter',
    ['modelet_requests_total', 'code'],
    'Requests that have ended, with the code ok or an error code',
    ({ snapshot }) => snapshot.requests,
  ),
  ofRuntime(
    'durations',
    ['modelet_request_duration_seconds', 'code'],
    'Time from the opening of a request to its end. Requests that are refused at once have none',
    (runtime) => runtime.durations,
  ),
  ofRuntime(
    'counter',
    ['modelet_client_requests_total', 'client', 'status'],
    'HTTP requests by the client whose key they carried, none without a known key, and the status of the answer',
    ({ snapshot }) => snapshot.clients,
  ),
  ofRuntime('gauge', 'modelet_backlog', 'Open requests', ({ snapshot }) => snapshot.backlog),
  ofRuntime('gauge', 'modelet_capacity', 'Most open requests', ({ snapshot }) => snapshot.capacity),
  ofRuntime(
    'counter',
    'modelet_late_outcomes_total',
    'Outcomes that arrived after their request had ended',
    ({ snapshot }) => snapshot.lateOutcomes,
  ),
];

const STAGES: readonly Metric[] = [
  ofStage('gauge', 'modelet_queue_length', 'Items in the queue', (stage) => stage.queue),
  ofStage('gauge', 'modelet_queue_capacity', 'Most items that the queue takes', (stage) => stage.capacity),
  ofStage(
    'durations',
    'modelet_queue_wait_seconds',
    'Per item: time in the queue because no worker was free',
    ({ reading }) => reading.queueWait,
  ),
  ofStage(
    'durations',
    'modelet_batch_wait_seconds',
    'Per item: time in the queue while a worker was free and the batch filled',
    ({ reading }) => reading.batchWait,
  ),
  ofStage('durations', 'modelet_run_seconds', 'Per item: run time of its batch', ({ reading }) => reading.run),
  ofStage('sizes', 'modelet_batch_size', 'Per batch: number of its items', ({ reading }) => reading.batchSize),
  ofStage(
    'counter',
    ['modelet_batches_total', 'reason'],
    'Batches by the reason why they left the queue: full, timer, idle (a free worker took the items that were there), gap, retry (an item runs again, alone, after its worker died or its batch failed)',
    ({ reading }) => reading.reasons,
  ),
  ofStage(
    'counter',
    'modelet_model_runs_total',
    'Runs of the model for the batches of its workers: calls of predict, or of the session of an ONNX model. A batch may take several. Not counted on worker hosts',
    ({ reading }) => reading.runs,
  ),
  ofStage('counter', 'modelet_items_total', 'Items that were sent to a worker', ({ reading }) => reading.items),
  ofStage(
    'counter',
    ['modelet_items_unserved_total', 'code'],
    'Items that no worker of the stage answered, by their error code',
    ({ reading }) => reading.unserved,
  ),
  ofStage(
    'counter',
    ['modelet_items_failed_total', 'code'],
    'Items that a worker answered with an error, by its code',
    ({ reading }) => reading.failed,
  ),
  ofStage(
    'counter',
    ['modelet_cache_requests_total', 'result'],
    'Requests to a stage with a response cache: hit (answered from the cache), miss (runs), joined (shares the run of an identical request)',
    ({ reading }) => reading.cache,
  ),
  ofStage('gauge', 'modelet_cache_entries', 'Results in the response cache', ({ cache }) => cache.entries),
  ofStage('gauge', 'modelet_cache_bytes', 'Bytes of the results in the response cache', ({ cache }) => cache.bytes),
  ofStage(
    'gauge',
    'modelet_keys',
    'Keys of a stage with keys that have items, or had some not long ago',
    ({ keys }) => keys?.open ?? 0,
  ),
  ofStage(
    'counter',
    'modelet_keys_lost_total',
    'Keys that lost their state because their worker ended',
    ({ keys }) => keys?.lost ?? 0,
  ),
  ofStage('counter', 'modelet_taps_total', 'Copies of values made for taps', ({ reading }) => reading.taps),
  ofStage(
    'counter',
    'modelet_parts_total',
    'Parts of streamed results that were sent on',
    ({ reading }) => reading.parts,
  ),
  ofStage(
    'counter',
    'modelet_metrics_dropped_total',
    "Updates of the modelet's own metrics that were dropped because there are too many of them",
    ({ reading }) => reading.ownDropped,
  ),
];

const VERSIONS: readonly Metric[] = [
  ofVersion(
    'gauge',
    ['modelet_version_share', 'mode'],
    'Share of the requests of a stage that a version has at present, 0 to 1; mode: answer or shadow',
    ({ version: { mode, share } }) => ({ [mode]: share / 100 }),
  ),
  ofVersion(
    'counter',
    'modelet_version_rollbacks_total',
    'Times that a version lost its share because too many of its requests failed',
    ({ stage }) => stage?.reading.rollbacks ?? 0,
  ),
  ofVersion(
    'counter',
    'modelet_version_redirected_total',
    'Requests of a version that its base answered, because no worker of the version served',
    ({ stage }) => stage?.reading.redirected ?? 0,
  ),
];

const WORKERS: readonly Metric[] = [
  ofStage('gauge', 'modelet_workers', 'Workers of the stage', ({ workers }) => workers.length),
  ofStage('gauge', 'modelet_workers_ready', 'Workers that are ready', (stage) => stage.ready),
  ofStage(
    'gauge',
    ['modelet_workers_wanted', 'bound'],
    'Of a stage whose number of workers follows its load, the least, the most and the present number (bound: min, max, now)',
    ({ scaling }) => scaling && { min: scaling.min, max: scaling.max, now: scaling.wanted },
  ),
  ofStage(
    'gauge',
    'modelet_workers_busy',
    'Workers that run a batch now',
    ({ workers }) => workers.filter(({ busy }) => busy).length,
  ),
  ofStage('gauge', 'modelet_batches_running', 'Batches that run now', (stage) => stage.busy),
  ofStage(
    'gauge',
    'modelet_places',
    'Batches that all workers can run at a time: workers times concurrency',
    ({ workers, concurrency }) => workers.length * concurrency,
  ),
  ofStage('gauge', ['modelet_worker_state', 'state'], 'Workers in this state', workerStates),
  ofStage(
    'counter',
    ['modelet_worker_restarts_total', 'cause'],
    'Workers that ended and were replaced: died, not_started, run_timeout, recycled (old or large), asked',
    ({ reading }) => reading.restarts,
  ),
  ofStage(
    'gauge',
    ['modelet_circuit_state', 'state'],
    '1 for the present state of the circuit: open refuses requests after repeated deaths, half-open tries one worker',
    ({ circuit }) => Object.fromEntries(CIRCUIT_STATES.map((state) => [state, circuit === state ? 1 : 0])),
  ),
  ofStage(
    'counter',
    'modelet_busy_seconds_total',
    'Run time of all batches together',
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
    'CPU time of a worker since its start; of a thread, the time that its event loop was busy',
    (worker) => (worker.cpuMs === null ? null : worker.cpuMs * SECONDS_PER_MS),
  ),
];

const ENGINE: readonly Metric[] = [
  ofRuntime(
    'gauge',
    'modelet_engine_held_bytes',
    'Payloads in the engine, limited by Queue memory (maxQueueMb) of the runtime',
    ({ snapshot }) => snapshot.engine.heldBytes,
  ),
  ofRuntime('gauge', 'modelet_engine_rss_bytes', 'Memory of the engine', ({ snapshot }) => snapshot.engine.rssBytes),
];

/** Facts that only the parent of an engine knows. */
const SERVER: readonly Metric[] = [
  ofRuntime(
    'counter',
    'modelet_deploys_total',
    'Deploys that have changed or confirmed the plan of the runtime',
    ({ snapshot }) => snapshot.deploys.count,
  ),
  ofRuntime(
    'counter',
    'modelet_deploy_handovers_total',
    'Requests that were open while a deploy replaced the nodes',
    ({ snapshot }) => snapshot.deploys.handedOver,
  ),
  ofRuntime('gauge', ['modelet_engine_state', 'state'], '1 for the present state of the engine', ({ snapshot }) =>
    Object.fromEntries(PROCESS_STATES.map((state) => [state, snapshot.engine.state === state ? 1 : 0])),
  ),
  ofRuntime(
    'counter',
    ['modelet_engine_restarts_total', 'cause'],
    'Engines that ended and were replaced: died, not_started',
    ({ snapshot }) => ({ died: snapshot.engine.deaths.serving, not_started: snapshot.engine.deaths.starting }),
  ),
  ofRuntime(
    'counter',
    ['modelet_frames_total', 'direction', 'type'],
    'Frames between Node-RED and the engine',
    ({ snapshot: { frames } }) => ({ sent: framesIn(frames.sent), received: framesIn(frames.received) }),
  ),
  ofRuntime(
    'counter',
    ['modelet_channel_bytes_total', 'direction'],
    'Bytes between Node-RED and the engine',
    ({ snapshot }) => ({ ...snapshot.bytes }),
  ),
];

const GATES: readonly Metric[] = [
  ofGate('gauge', 'modelet_gate_open', '1 while the gate is open', ({ open }) => Number(open)),
  ofGate(
    'gauge',
    'modelet_gate_budget',
    'D: share of the capacity that is free; 0 if it is not known',
    ({ budget }) => budget,
  ),
  ofGate('gauge', 'modelet_gate_baseline', 'B: share of the capacity to keep free', ({ baseline }) => baseline),
  ofGate('gauge', 'modelet_gate_quota', 'N: what the gate may admit, in its unit', ({ quota }) => quota),
  ofGate(
    'gauge',
    'modelet_gate_in_flight',
    "Admitted and not ended, in the gate's unit",
    ({ inFlightCost }) => inFlightCost,
  ),
  ofGate('gauge', 'modelet_gate_waiting', 'Requests that wait at the gate', ({ waiting }) => waiting),
  ofGate(
    'counter',
    ['modelet_gate_decisions_total', 'reason'],
    'Requests by decision: admitted, admitted_late (after a wait), refused_closed, refused_full, expired, dropped, cancelled',
    ({ decisions }) => decisions,
  ),
  ofGate(
    'counter',
    'modelet_gate_lost_total',
    'Admitted requests without a result within "Lease time" (leaseMs)',
    ({ lost }) => lost,
  ),
  ofGate('gauge', 'modelet_gate_source_available', '1 if the last reading of the source gave a sample', ({ source }) =>
    Number(source.available),
  ),
  ofGate('gauge', 'modelet_gate_sample_age_seconds', 'Age of the last sample', ({ source }) =>
    source.ageMs === null ? null : source.ageMs / 1000,
  ),
  ofGate('gauge', 'modelet_gate_dead_letters', 'Dead letters of a durable gate', ({ store }) =>
    store === null ? null : store.dead,
  ),
  ofGate('gauge', 'modelet_gate_store_available', '1 while the store of a durable gate can be used', ({ store }) =>
    store === null ? null : Number(store.error === null),
  ),
];

/** Metrics that an engine can serve itself. Its requests are those of its listener. */
export const ENGINE_METRICS: readonly Metric[] = [...REQUESTS, ...STAGES, ...VERSIONS, ...WORKERS, ...ENGINE];

export const METRICS: readonly Metric[] = [...ENGINE_METRICS, ...SERVER, ...GATES];
