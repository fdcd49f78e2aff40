/**
 * The Prometheus exposition. Each scrape reads the runtimes again, and nothing is kept between scrapes: the series of a
 * removed stage disappear, and no item causes work for labels.
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
  /** Id of the runtime that the gate belongs to; null if there is none. */
  readonly runtime: string | null;
}

/** The exposition of a Node-RED process, which has only one. */
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

  /** Returns the exposition of these runtimes and gates. */
  text(runtimes: readonly Measured[], gates: readonly MeasuredGate[]): Promise<string> {
    // The registry reads all metrics in this event loop turn, so scrapes do not mix.
    this.#measured = runtimes;
    this.#gates = gates;
    return this.#registry.metrics();
  }

  #register(described: Metric): void {
    const { name, type, help } = described;
    // The registry accepts any object whose `get` returns its values.
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

/** Returns each runtime's name, or its id if the name is blank or not unique. */
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
