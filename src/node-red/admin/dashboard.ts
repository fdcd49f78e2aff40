/** What happened in an interval, in the forms that dashboards take. */
import type { MeasuredGate } from '../../observe/export/collect.ts';
import type { RuntimeInterval } from '../../observe/views/interval.ts';
import type { StageSnapshot } from '../../observe/views/snapshot.ts';

/** One number, for a chart, which draws a line per topic, or for a gauge. */
export type SeriesMessage = {
  readonly topic: string;
  readonly payload: number;
  /** In ms since 1970. */
  readonly timestamp: number;
  /** By which a switch node picks what a chart is about. */
  readonly metric: string;
  readonly stage?: string;
  readonly gate?: string;
};

/** How a gate stands now. */
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

/** By name, the gates that belong to a runtime. */
export function gatesOf(gates: readonly MeasuredGate[], runtime: string): Record<string, GateStanding> {
  const own = gates.filter((gate) => gate.runtime === runtime).map(({ snapshot }) => snapshot);
  return Object.fromEntries(
    own.map(({ name, open, budget, quota, inFlight, waiting }) => [name, { open, budget, quota, inFlight, waiting }]),
  );
}

/** One message per number. What the interval has no value for is left out: a chart has a gap there. */
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

/** A row per stage. */
export function stageRows({ stages }: RuntimeInterval): TableMessage {
  return { topic: 'stages', payload: Object.entries(stages).map(([stage, values]) => ({ stage, ...values })) };
}

/** A row per worker, as it is now. Cells are numbers and texts, which tables show as they are. */
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
