/**
 * The Prometheus exposition. Nothing is kept here between two scrapes: each reads the runtimes anew, so that the
 * series of a stage that has gone are gone, and an item costs no label.
 */
import { type Metric as PromMetric, Registry } from 'prom-client';
import { countOf } from './histogram.ts';
import { type Labels, METRICS, type Measured, type Metric, type Sample } from './metrics.ts';

interface Line {
  readonly metricName: string;
  readonly labels: Labels;
  readonly value: number;
}

/** One per process of Node-RED. */
export class Exposition {
  readonly #registry: Registry = new Registry();
  #measured: readonly Measured[] = [];

  constructor() {
    for (const metric of METRICS) this.#register(metric);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** What a scrape of these runtimes gets. */
  text(runtimes: readonly Measured[]): Promise<string> {
    // The registry asks all metrics in this turn, so that scrapes do not mix.
    this.#measured = runtimes;
    return this.#registry.metrics();
  }

  #register({ name, type, help, read }: Metric): void {
    const values = (): Line[] => {
      const names = runtimeNames(this.#measured);
      return this.#measured.flatMap((runtime, index) =>
        read(runtime).flatMap((sample) => linesOf(name, { runtime: names[index] ?? '', ...sample.labels }, sample)),
      );
    };
    // The registry takes whatever can be asked for its values.
    const metric = { name, help, type, get: () => Promise.resolve({ name, help, type, values: values() }) };
    this.#registry.registerMetric(metric as unknown as PromMetric);
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
