/** The kinds of metrics of the exposition. A metric reads its series from the state of all runtimes and gates. */
import type { WorkerStatus } from '../../core/model.ts';
import type { DurationReadings, HistogramReading } from '../../core/readings.ts';
import { DURATION_BOUNDS, SIZE_BOUNDS } from '../meters/histogram.ts';
import type { GateSnapshot } from '../views/gate-snapshot.ts';
import type { RuntimeSnapshot, StageSnapshot, VersionSnapshot } from '../views/snapshot.ts';

/** A runtime at the moment of a scrape. */
export interface Measured {
  readonly snapshot: RuntimeSnapshot;
  readonly durations: DurationReadings;
}

/** The data of one scrape. `runtime` is a name that no other runtime has; it is blank for a gate without a runtime. */
export interface Scrape {
  readonly runtimes: readonly (Measured & { readonly runtime: string })[];
  readonly gates: readonly { readonly snapshot: GateSnapshot; readonly runtime: string }[];
}

export type Labels = Readonly<Record<string, string>>;

/** One series: a number, or the buckets of a histogram in the unit of its bounds. */
export interface MetricSeries {
  readonly labels: Labels;
  readonly value: number | HistogramReading;
}

export interface Metric {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly name: string;
  readonly help: string;
  /** Labels besides `runtime`, which every metric has. */
  readonly labels: readonly string[];
  readonly bounds?: readonly number[];
  read(scrape: Scrape): readonly MetricSeries[];
}

/** `durations` are measured in ms and given out in seconds. */
const KINDS = {
  counter: { type: 'counter' },
  gauge: { type: 'gauge' },
  durations: { type: 'histogram', bounds: DURATION_BOUNDS.map((ms) => ms / 1000) },
  sizes: { type: 'histogram', bounds: SIZE_BOUNDS },
} as const;

type Kind = keyof typeof KINDS;

/** The reading of a subject by a metric: one value, values by label, or null for no series. */
type Values = number | HistogramReading | null | undefined | { readonly [label: string]: Values };

/**
 * Returns a maker of the metrics of one kind of subject, such as stages.
 * @param scope the labels of a subject, besides `runtime`
 * @param subjectsIn returns the subjects of a scrape, each with those labels
 */
function metricsOf<Subject>(
  scope: readonly string[],
  subjectsIn: (scrape: Scrape) => readonly { readonly labels: Labels; readonly subject: Subject }[],
) {
  /** @param named the name, and a label for each level of the values that `read` returns */
  return (
    kind: Kind,
    named: string | readonly [name: string, ...labels: string[]],
    help: string,
    read: (subject: Subject) => Values,
  ): Metric => {
    const [name, ...levels] = typeof named === 'string' ? [named] : named;
    return {
      ...KINDS[kind],
      ...{ name, help, labels: [...scope, ...levels] },
      read: (scrape) =>
        subjectsIn(scrape).flatMap(({ labels, subject }) => seriesOf(kind, labels, levels, read(subject))),
    };
  };
}

function seriesOf(kind: Kind, labels: Labels, [level, ...levels]: readonly string[], values: Values): MetricSeries[] {
  if (values === null || values === undefined) return [];
  if (level === undefined) {
    const value = values as MetricSeries['value'];
    const inSeconds = kind === 'durations' && typeof value !== 'number';
    return [{ labels, value: inSeconds ? { ...value, sum: value.sum / 1000 } : value }];
  }
  return Object.entries(values).flatMap(([key, inner]) => seriesOf(kind, { ...labels, [level]: key }, levels, inner));
}

function stagesOf({ runtimes }: Scrape): { labels: Labels; subject: StageSnapshot }[] {
  return runtimes.flatMap(({ runtime, snapshot: { stages } }) =>
    stages.map((stage) => ({ labels: { runtime, stage: stage.name }, subject: stage })),
  );
}

export const ofRuntime = metricsOf<Measured>([], ({ runtimes }) =>
  runtimes.map((one) => ({ labels: { runtime: one.runtime }, subject: one })),
);

export const ofStage = metricsOf<StageSnapshot>(['stage'], stagesOf);

export const ofWorker = metricsOf<WorkerStatus>(['stage', 'worker'], (scrape) =>
  stagesOf(scrape).flatMap(({ labels, subject: { workers } }) =>
    workers.map((worker) => ({ labels: { ...labels, worker: String(worker.index) }, subject: worker })),
  ),
);

export const ofVersion = metricsOf<{ readonly version: VersionSnapshot; readonly stage: StageSnapshot | undefined }>(
  ['stage', 'version'],
  (scrape) => {
    const stages = stagesOf(scrape);
    return stages.flatMap(({ labels, subject: { versions } }) =>
      versions.map((version) => {
        const found = stages.find(
          (one) => one.labels['runtime'] === labels['runtime'] && one.subject.id === version.stage,
        );
        return { labels: { ...labels, version: version.name }, subject: { version, stage: found?.subject } };
      }),
    );
  },
);

export const ofGate = metricsOf<GateSnapshot>(['gate'], ({ gates }) =>
  gates.map(({ snapshot, runtime }) => ({ labels: { runtime, gate: snapshot.name }, subject: snapshot })),
);
