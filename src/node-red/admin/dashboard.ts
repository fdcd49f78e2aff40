/** Converts the figures of an interval into messages for dashboards. */
import type { NodeMessage } from 'node-red';
import { wallTimeAt } from '../../core/clock.ts';
import type { MeasuredGate } from '../../observe/export/collect.ts';
import { intervalBetween, type Measurement, type RuntimeInterval } from '../../observe/views/interval.ts';
import type { StageSnapshot } from '../../observe/views/snapshot.ts';
import { viewBetween } from '../../observe/views/view.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { Pipeline } from '../pipeline.ts';
import { aroundOf } from './live-view.ts';

/** One number for a gauge or a chart. A chart draws one line per topic. */
type SeriesMessage = {
  readonly topic: string;
  readonly payload: number;
  /** Time of day in ms since 1970. */
  readonly timestamp: number;
  /** Name of its line in words. */
  readonly label: string;
  /** Name of the metric, so that a switch node can route each metric to its chart. */
  readonly metric: string;
  readonly stage?: string;
  readonly gate?: string;
};

/** Current state of a gate. */
interface GateStanding {
  readonly open: boolean;
  readonly budget: number;
  readonly quota: number;
  readonly inFlight: number;
  readonly waiting: number;
}

type TableMessage = {
  readonly topic: 'stages' | 'workers';
  readonly payload: readonly object[];
};

/** The metrics with their names in words. */
const OF_RUNTIME = {
  requests: 'requests',
  errors: 'errors',
  requestsPerSecond: 'requests per second',
  errorsPerSecond: 'errors per second',
  p50: 'median',
  p95: '95 % within',
  p99: '99 % within',
  backlog: 'open requests',
} as const;
const OF_STAGE = {
  queue: 'items that wait',
  busy: 'busy workers',
  workers: 'ready workers',
  meanBatch: 'items per batch',
  runMs: 'run time, ms',
  cached: 'share from the cache',
} as const;
const OF_GATE = {
  budget: 'share that is free',
  quota: 'requests that it would admit',
  inFlight: 'requests in flight',
  waiting: 'requests that wait',
} as const;

/** The intervals of a runtime, each between two looks at it. */
export class Intervals {
  readonly #pipeline: Pipeline;
  readonly #runtime: string;
  /** The last look. A new or replaced runtime has had none. */
  #before: { readonly service: Service; readonly look: Measurement } | null = null;

  /** @param runtime id of the runtime; '': the only one */
  constructor(pipeline: Pipeline, runtime: string) {
    this.#pipeline = pipeline;
    this.#runtime = runtime;
  }

  /**
   * Looks at the runtime.
   * @returns the number of runtimes that could be meant, and the messages for each output; null if there has been no
   * interval of one runtime
   */
  next(): { readonly runtimes: number; readonly messages: (NodeMessage | NodeMessage[])[] | null } {
    const { services } = this.#pipeline;
    const meant = this.#runtime === '' ? services : services.filter(({ id }) => id === this.#runtime);
    const [service = null] = meant.length === 1 ? meant : [];
    const before = this.#before;
    const look = service?.measure() ?? null;
    this.#before = service && look ? { service, look } : null;
    const isInterval = service && look && before?.service === service;
    return { runtimes: meant.length, messages: isInterval ? this.#messages(service, before.look, look) : null };
  }

  #messages({ id }: Service, before: Measurement, look: Measurement): (NodeMessage | NodeMessage[])[] {
    const interval = intervalBetween(before, look, Math.round(wallTimeAt(look.at)));
    const gates = gatesOf(this.#pipeline.gates.measured, id);
    const { kind, text } = viewBetween([before], [look], aroundOf(this.#pipeline, id)).verdict;
    return [
      { payload: { ...interval, gates, verdict: { kind, text } } },
      seriesOf(interval, gates),
      stageRows(interval),
      workerRows(look.snapshot.stages),
    ];
  }
}

/** Returns the gates that belong to a runtime, by name. */
function gatesOf(gates: readonly MeasuredGate[], runtime: string): Record<string, GateStanding> {
  const own = gates.filter((gate) => gate.runtime === runtime).map(({ snapshot }) => snapshot);
  return Object.fromEntries(
    own.map(({ name, open, budget, quota, inFlight, waiting }) => [name, { open, budget, quota, inFlight, waiting }]),
  );
}

/** Returns one message per number. Skips metrics without a value, so that a chart shows a gap. */
function seriesOf(interval: RuntimeInterval, gates: Readonly<Record<string, GateStanding>>): SeriesMessage[] {
  const timestamp = interval.time;
  const ofRuntime = labelled(OF_RUNTIME, interval).map((line) => ({ ...line, topic: line.metric, timestamp }));
  const ofStages = Object.entries(interval.stages).flatMap(([stage, values]) =>
    labelled(OF_STAGE, values).map((line) => ({ ...named(stage, line), timestamp, stage })),
  );
  const ofGates = Object.entries(gates).flatMap(([gate, values]) =>
    labelled(OF_GATE, values).map((line) => ({ ...named(gate, line), timestamp, gate })),
  );
  return [...ofRuntime, ...ofStages, ...ofGates];
}

type Line = Pick<SeriesMessage, 'metric' | 'label' | 'payload'>;

function labelled<Metric extends string>(
  labels: Readonly<Record<Metric, string>>,
  values: Readonly<Record<NoInfer<Metric>, number | null>>,
): Line[] {
  return (Object.entries(labels) as [Metric, string][]).flatMap(([metric, label]) => {
    const payload = values[metric];
    return payload === null ? [] : [{ metric, label, payload }];
  });
}

function named(name: string, { metric, label, payload }: Line): Line & Pick<SeriesMessage, 'topic'> {
  return { topic: `${name} ${metric}`, label: `${name}: ${label}`, metric, payload };
}

/** Returns a table with one row per stage. */
function stageRows({ stages }: RuntimeInterval): TableMessage {
  return { topic: 'stages', payload: Object.entries(stages).map(([stage, values]) => ({ stage, ...values })) };
}

/** Returns a table of the current workers, one row each. Cells are numbers or text, which tables show unchanged. */
function workerRows(stages: readonly StageSnapshot[]): TableMessage {
  const payload = stages.flatMap(({ name, workers }) =>
    workers.map(({ index, pid, state, cpus, rssBytes, restarts, error }) => ({
      stage: name,
      worker: index,
      pid,
      state,
      cpus: cpus?.join(', ') ?? 'any',
      rssMb: rssBytes === null ? null : Math.round(rssBytes / 2 ** 20),
      restarts,
      error: error ?? '',
    })),
  );
  return { topic: 'workers', payload };
}
