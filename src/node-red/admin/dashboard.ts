/** Converts the figures of an interval into messages for dashboards. */
import type { MeasuredGate } from '../../observe/export/collect.ts';
import type { RuntimeInterval } from '../../observe/views/interval.ts';
import type { StageSnapshot } from '../../observe/views/snapshot.ts';

/** One number for a gauge or a chart. A chart draws one line per topic. */
export type SeriesMessage = {
  readonly topic: string;
  readonly payload: number;
  /** Time of day in ms since 1970. */
  readonly timestamp: number;
  /** Name of the metric, so that a switch node can route each metric to its chart. */
  readonly metric: string;
  readonly stage?: string;
  readonly gate?: string;
};

/** Current state of a gate. */
export interface GateStanding {
  readonly open: boolean;
  readonly budget: number;
  readonly quota: number;
  readonly inFlight: number;
  readonly waiting: number;
}

export type TableMessage = {
  readonly topic: 'stages' | 'workers';
  readonly payload: readonly object[];
};

const OF_RUNTIME = [
  'requests',
  'errors',
  'requestsPerSecond',
  'errorsPerSecond',
  'p50',
  'p95',
  'p99',
  'backlog',
] as const;
const OF_STAGE = ['queue', 'busy', 'workers', 'meanBatch', 'runMs', 'cached'] as const;

const OF_GATE = ['budget', 'quota', 'inFlight', 'waiting'] as const;

/** Returns the gates that belong to a runtime, by name. */
export function gatesOf(gates: readonly MeasuredGate[], runtime: string): Record<string, GateStanding> {
  const own = gates.filter((gate) => gate.runtime === runtime).map(({ snapshot }) => snapshot);
  return Object.fromEntries(
    own.map(({ name, open, budget, quota, inFlight, waiting }) => [name, { open, budget, quota, inFlight, waiting }]),
  );
}

/** Returns one message per number. Skips metrics without a value, so that a chart shows a gap. */
export function seriesOf(interval: RuntimeInterval, gates: Readonly<Record<string, GateStanding>>): SeriesMessage[] {
  const timestamp = interval.time;
  const ofRuntime = OF_RUNTIME.flatMap((metric) => {
    const payload = interval[metric];
    return payload === null ? [] : [{ topic: metric, payload, timestamp, metric }];
  });
  const ofStages = Object.entries(interval.stages).flatMap(([stage, values]) =>
    OF_STAGE.flatMap((metric) => {
      const payload = values[metric];
      return payload === null ? [] : [{ topic: `${stage} ${metric}`, payload, timestamp, metric, stage }];
    }),
  );
  const ofGates = Object.entries(gates).flatMap(([gate, values]) =>
    OF_GATE.map((metric) => ({ topic: `${gate} ${metric}`, payload: values[metric], timestamp, metric, gate })),
  );
  return [...ofRuntime, ...ofStages, ...ofGates];
}

/** Returns a table with one row per stage. */
export function stageRows({ stages }: RuntimeInterval): TableMessage {
  return { topic: 'stages', payload: Object.entries(stages).map(([stage, values]) => ({ stage, ...values })) };
}

/** Returns a table of the current workers, one row each. Cells are numbers or text, which tables show unchanged. */
export function workerRows(stages: readonly StageSnapshot[]): TableMessage {
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
