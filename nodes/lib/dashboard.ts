/** What happened in an interval, in the forms that dashboards take. */
import type { RuntimeInterval } from '../../src/index.ts';

/** One number, for a chart, which draws a line per topic, or for a gauge. */
export type SeriesMessage = {
  readonly topic: string;
  readonly payload: number;
  /** In ms since 1970. */
  readonly timestamp: number;
  /** By which a switch node picks what a chart is about. */
  readonly metric: string;
  readonly stage?: string;
};

export type TableMessage = {
  readonly topic: 'stages';
  readonly payload: readonly object[];
};

const OF_RUNTIME = ['requestsPerSecond', 'errorsPerSecond', 'p50', 'p95', 'p99', 'backlog'] as const;
const OF_STAGE = ['queue', 'busy', 'workers', 'meanBatch', 'runMs'] as const;

/** One message per number. What the interval has no value for is left out: a chart has a gap there. */
export function seriesOf(interval: RuntimeInterval): SeriesMessage[] {
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
  return [...ofRuntime, ...ofStages];
}

/** A row per stage. */
export function tableOf({ stages }: RuntimeInterval): TableMessage {
  return { topic: 'stages', payload: Object.entries(stages).map(([stage, values]) => ({ stage, ...values })) };
}
