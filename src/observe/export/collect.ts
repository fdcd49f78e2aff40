/**
 * The Prometheus exposition. Nothing is kept here between two scrapes: each reads the runtimes anew, so that the
 * series of a stage that has gone are gone, and an item costs no label.
 */
import { type Metric as PromMetric, Registry } from 'prom-client';
import { countOf } from '../meters/histogram.ts';
import type { Labels, Sample } from '../meters/metric.ts';
import type { GateSnapshot } from '../views/gate-snapshot.ts';
import { METRICS, type Measured, type Metric } from './metrics.ts';

interface Line {
  readonly metricName: string;
  readonly labels: Labels;
  readonly value: number;
}

/** A gate at the moment of a scrape. */
export interface MeasuredGate {
  readonly snapshot: GateSnapshot;
  /** Id of the runtime that it belongs to; null: none. */
  readonly runtime: string | null;
}

/** One per process of Node-RED. */
export class Exposition {
  readonly #registry: Registry = new Registry();
  #measured: readonly Measured[] = [];
  #gates: readonly MeasuredGate[] = [];

  constructor() {
    for (const metric of METRICS) this.#register(metric);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** What a scrape of these runtimes and gates gets. */
  text(runtimes: readonly Measured[], gates: readonly MeasuredGate[]): Promise<string> {
    // The registry asks all metrics in this turn, so that scrapes do not mix.
    this.#measured = runtimes;
    this.#gates = gates;
    return this.#registry.metrics();
  }

  #register(described: Metric): void {
    const { name, type, help } = described;
    // The registry takes whatever can be asked for its values.
    const metric = {
      name,
      help,
      type,
      get: () => Promise.resolve({ name, help, type, values: this.#read(described) }),
    };
    this.#registry.registerMetric(metric as unknown as PromMetric);
  }

  #read(metric: Metric): Line[] {
    const names = runtimeNames(this.#measured);
    const lines = (runtime: string, samples: readonly Sample[]): Line[] =>
      samples.flatMap((sample) => linesOf(metric.name, { runtime, ...sample.labels }, sample));
    if ('read' in metric) {
      return this.#measured.flatMap((runtime, index) => lines(names[index] ?? '', metric.read(runtime)));
    }
    return this.#gates.flatMap(({ snapshot, runtime }) => {
      const index = this.#measured.findIndex((measured) => measured.snapshot.id === runtime);
      return lines(names[index] ?? '', metric.readGate(snapshot));
    });
  }
}

/** A runtime is known by its name; those that share one, and those without, by their id. */
function runtimeNames(measured: readonly Measured[]): string[] {
  const names = measured.map(({ snapshot }) => snapshot.name);
  return measured.map(({ snapshot: { id, name } }) =>
    name === '' || names.filter((other) => other === name).length > 1 ? id : name,
  );
}

function linesOf(metricName: string, labels: Labels, sample: Sample): Line[] {
  if ('value' in sample) return [{ metricName, labels, value: sample.value }];
  const { bounds, reading } = sample;
  let upTo = 0;
  const buckets = reading.counts.map((count, index) => {
    upTo += count;
    const le = index < bounds.length ? String(bounds[index]) : '+Inf';
    return { metricName: `${metricName}_bucket`, labels: { ...labels, le }, value: upTo };
  });
  return [
    ...buckets,
    { metricName: `${metricName}_sum`, labels, value: reading.sum },
    { metricName: `${metricName}_count`, labels, value: countOf(reading) },
  ];
}
