/** The kinds of metrics of the exposition. A metric reads its series from the state of all runtimes and gates. */
import type { WorkerStatus } from '../../core/model.ts';
import type { DurationReadings, HistogramReading } from '../../core/readings.ts';
import { DURATION_BOUNDS, SIZE_BOUNDS } from '../meters/histogram.ts';
import type { GateSnapshot } from '../views/gate-snapshot.ts';
import type { RuntimeSnapshot, StageSnapshot } from '../views/snapshot.ts';

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

export interface NumberSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The buckets of one series, in the unit of its bounds. */
export interface HistogramSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly reading: HistogramReading;
}

interface MetricDescription {
  readonly name: string;
  readonly help: string;
  /** Labels besides `runtime`, which every metric has. */
  readonly labels: readonly string[];
}

export interface NumberMetric extends MetricDescription {
  readonly type: 'counter' | 'gauge';
  read(scrape: Scrape): readonly NumberSample[];
}

export interface HistogramMetric extends MetricDescription {
  readonly type: 'histogram';
  readonly bounds: readonly number[];
  read(scrape: Scrape): readonly HistogramSample[];
}

export type Metric = NumberMetric | HistogramMetric;

type NumberType = NumberMetric['type'];
type Keyed = Readonly<Record<string, number>>;

const DURATION_BOUNDS_SECONDS: readonly number[] = DURATION_BOUNDS.map((ms) => ms / 1000);

/** Creates a metric whose series `read` finds in each runtime, without the label `runtime`. */
export function perRuntime(
  type: NumberType,
  name: string,
  help: string,
  labels: readonly string[],
  read: (runtime: Measured) => readonly NumberSample[],
): NumberMetric {
  return {
    ...{ name, type, help, labels },
    read: ({ runtimes }) => runtimes.flatMap((one) => read(one).map((sample) => within(one.runtime, sample))),
  };
}

export function ofRuntime(
  type: NumberType,
  name: string,
  help: string,
  read: (runtime: Measured) => number,
): NumberMetric {
  return perRuntime(type, name, help, [], (runtime) => [{ labels: {}, value: read(runtime) }]);
}

/** Creates a metric with one series for each key of an object; the key is the label's value. */
export function byKey(
  type: NumberType,
  [name, label]: readonly [string, string],
  help: string,
  read: (runtime: Measured) => Keyed,
): NumberMetric {
  return perRuntime(type, name, help, [label], (runtime) => keyed({}, label, read(runtime)));
}

export function ofStage(
  type: NumberType,
  name: string,
  help: string,
  read: (stage: StageSnapshot) => number,
): NumberMetric {
  return perRuntime(type, name, help, ['stage'], ({ snapshot }) =>
    snapshot.stages.map((stage) => ({ labels: { stage: stage.name }, value: read(stage) })),
  );
}

export function ofStageByKey(
  type: NumberType,
  [name, label]: readonly [string, string],
  help: string,
  read: (stage: StageSnapshot) => Keyed,
): NumberMetric {
  return perRuntime(type, name, help, ['stage', label], ({ snapshot }) =>
    snapshot.stages.flatMap((stage) => keyed({ stage: stage.name }, label, read(stage))),
  );
}

/** @param read returns null if the worker has no value */
export function ofWorker(
  type: NumberType,
  name: string,
  help: string,
  read: (worker: WorkerStatus) => number | null,
): NumberMetric {
  return perRuntime(type, name, help, ['stage', 'worker'], ({ snapshot }) =>
    snapshot.stages.flatMap((stage) =>
      stage.workers.flatMap((worker) => {
        const value = read(worker);
        return value === null ? [] : [{ labels: { stage: stage.name, worker: String(worker.index) }, value }];
      }),
    ),
  );
}

/** @param read returns null if the gate has no value */
export function ofGate(
  type: NumberType,
  name: string,
  help: string,
  read: (gate: GateSnapshot) => number | null,
): NumberMetric {
  return {
    ...{ name, type, help, labels: ['gate'] },
    read: ({ gates }) =>
      gates.flatMap(({ snapshot, runtime }) => {
        const value = read(snapshot);
        return value === null ? [] : [within(runtime, { labels: { gate: snapshot.name }, value })];
      }),
  };
}

export function ofGateByKey(
  type: NumberType,
  [name, label]: readonly [string, string],
  help: string,
  read: (gate: GateSnapshot) => Keyed,
): NumberMetric {
  return {
    ...{ name, type, help, labels: ['gate', label] },
    read: ({ gates }) =>
      gates.flatMap(({ snapshot, runtime }) =>
        keyed({ gate: snapshot.name }, label, read(snapshot)).map((sample) => within(runtime, sample)),
      ),
  };
}

/** Creates a histogram of durations that were measured in ms, with one series for each key. */
export function durations(
  [name, label]: readonly [string, string],
  help: string,
  read: (runtime: Measured) => DurationReadings,
): HistogramMetric {
  return {
    ...{ name, type: 'histogram', help, labels: [label], bounds: DURATION_BOUNDS_SECONDS },
    read: ({ runtimes }) =>
      runtimes.flatMap((one) =>
        Object.entries(read(one)).map(([key, reading]) => within(one.runtime, inSeconds({ [label]: key }, reading))),
      ),
  };
}

export function durationOfStage(
  name: string,
  help: string,
  read: (stage: StageSnapshot) => HistogramReading,
): HistogramMetric {
  return {
    ...{ name, type: 'histogram', help, labels: ['stage'], bounds: DURATION_BOUNDS_SECONDS },
    read: (scrape) => stagesOf(scrape, (stage) => inSeconds({ stage: stage.name }, read(stage))),
  };
}

export function sizeOfStage(
  name: string,
  help: string,
  read: (stage: StageSnapshot) => HistogramReading,
): HistogramMetric {
  return {
    ...{ name, type: 'histogram', help, labels: ['stage'], bounds: SIZE_BOUNDS },
    read: (scrape) => stagesOf(scrape, (stage) => ({ labels: { stage: stage.name }, reading: read(stage) })),
  };
}

function stagesOf({ runtimes }: Scrape, read: (stage: StageSnapshot) => HistogramSample): HistogramSample[] {
  return runtimes.flatMap(({ runtime, snapshot }) => snapshot.stages.map((stage) => within(runtime, read(stage))));
}

function keyed(labels: NumberSample['labels'], label: string, values: Keyed): NumberSample[] {
  return Object.entries(values).map(([key, value]) => ({ labels: { ...labels, [label]: key }, value }));
}

function inSeconds(labels: HistogramSample['labels'], { counts, sum }: HistogramReading): HistogramSample {
  return { labels, reading: { counts, sum: sum / 1000 } };
}

function within<Sample extends NumberSample | HistogramSample>(runtime: string, sample: Sample): Sample {
  return { ...sample, labels: { runtime, ...sample.labels } };
}
