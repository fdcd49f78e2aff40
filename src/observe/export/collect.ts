/**
 * The Prometheus exposition. Each scrape reads the runtimes again, and nothing is kept between scrapes: the series of a
 * removed stage disappear, and no item causes work for labels.
 */
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { countOf } from '../meters/histogram.ts';
import type { GateSnapshot } from '../views/gate-snapshot.ts';
import type { HistogramMetric, HistogramSample, Measured, Metric, NumberMetric, Scrape } from './metric.ts';
import { METRICS } from './metrics.ts';
import { ownMetrics } from './own-metrics.ts';

/** A gate at the moment of a scrape. */
export interface MeasuredGate {
  readonly snapshot: GateSnapshot;
  /** Id of the runtime that the gate belongs to, or null. */
  readonly runtime: string | null;
}

/** The exposition of a process, which has only one. */
export class Exposition {
  readonly #registry: Registry = new Registry();
  readonly #metrics: readonly Metric[];
  #scrape: Scrape = { runtimes: [], gates: [] };

  /**
   * @param metrics those that this process knows
   * @param withProcess whether the process itself is measured too. In Node-RED's process, others may do that.
   */
  constructor(metrics: readonly Metric[] = METRICS, withProcess = false) {
    this.#metrics = metrics;
    if (withProcess) collectDefaultMetrics({ register: this.#registry });
    for (const metric of metrics) if (metric.type !== 'histogram') this.#register(metric);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Returns the exposition of these runtimes and gates. */
  text(runtimes: readonly Measured[], gates: readonly MeasuredGate[]): Promise<string> {
    // The registry collects all metrics in this event loop turn, so scrapes do not mix.
    this.#scrape = scrapeOf(runtimes, gates);
    const histograms = this.#metrics.filter((metric) => metric.type === 'histogram');
    const gathered = gather([...histograms, ...ownMetrics(this.#scrape)], this.#scrape);
    return Registry.merge([this.#registry, gathered]).metrics();
  }

  #register(metric: NumberMetric): void {
    const { name, help, labels } = metric;
    const read = (): ReturnType<NumberMetric['read']> => metric.read(this.#scrape);
    const configuration = { name, help, labelNames: ['runtime', ...labels], registers: [] };
    const registered =
      metric.type === 'gauge'
        ? new Gauge({
            ...configuration,
            collect() {
              this.reset();
              for (const { labels, value } of read()) this.set(labels, value);
            },
          })
        : new Counter({
            ...configuration,
            collect() {
              this.reset();
              for (const { labels, value } of read()) this.inc(labels, value);
            },
          });
    this.#registry.registerMetric(registered);
  }
}

/**
 * Returns a registry with histograms, and with metrics that only this scrape has. A histogram of prom-client counts in
 * its own process, but these are counted in the engine; prom-client takes metrics of other processes in the form in
 * which its registries give them out.
 */
function gather(metrics: readonly Metric[], scrape: Scrape): Registry {
  const given = metrics.map((metric) => ({
    name: metric.name,
    help: metric.help,
    type: metric.type,
    aggregator: 'sum',
    values:
      metric.type === 'histogram'
        ? metric.read(scrape).flatMap((sample) => valuesOf(metric, sample))
        : [...metric.read(scrape)],
  }));
  return AggregatorRegistry.aggregate([given]);
}

function valuesOf({ name, bounds }: HistogramMetric, { labels, reading }: HistogramSample): object[] {
  let upTo = 0;
  const buckets = reading.counts.map((count, index) => {
    upTo += count;
    const le = index < bounds.length ? String(bounds[index]) : '+Inf';
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: upTo };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: reading.sum },
    { metricName: `${name}_count`, labels, value: countOf(reading) },
  ];
}

/** Names each runtime by its name, or by its id if the name is blank or not unique. */
function scrapeOf(measured: readonly Measured[], gates: readonly MeasuredGate[]): Scrape {
  const names = measured.map(({ snapshot }) => snapshot.name);
  const runtimes = measured.map((one) => {
    const { id, name } = one.snapshot;
    return { ...one, runtime: name === '' || names.filter((other) => other === name).length > 1 ? id : name };
  });
  return {
    runtimes,
    gates: gates.map(({ snapshot, runtime }) => ({
      snapshot,
      runtime: runtimes.find((one) => one.snapshot.id === runtime)?.runtime ?? '',
    })),
  };
}
