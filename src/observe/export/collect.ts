/**
 * The Prometheus exposition. Each scrape reads the runtimes again, and nothing is kept between scrapes: the series of a
 * removed stage disappear, and no item causes work for labels.
 */
import { AggregatorRegistry, collectDefaultMetrics, Registry } from 'prom-client';
import { countOf } from '../meters/histogram.ts';
import type { GateSnapshot } from '../views/gate-snapshot.ts';
import type { Measured, Metric, MetricSeries, Scrape } from './metric.ts';
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
  /** The metrics of the process itself. */
  readonly #process: Registry = new Registry();
  readonly #metrics: readonly Metric[];

  /**
   * @param metrics those that this process knows
   * @param withProcess whether the process itself is measured too. In Node-RED's process, others may do that.
   */
  constructor(metrics: readonly Metric[] = METRICS, withProcess = false) {
    this.#metrics = metrics;
    if (withProcess) collectDefaultMetrics({ register: this.#process });
  }

  get contentType(): string {
    return this.#process.contentType;
  }

  /** Returns the exposition of these runtimes and gates. */
  text(runtimes: readonly Measured[], gates: readonly MeasuredGate[]): Promise<string> {
    const scrape = scrapeOf(runtimes, gates);
    return Registry.merge([this.#process, gather([...this.#metrics, ...ownMetrics(scrape)], scrape)]).metrics();
  }
}

/**
 * Returns a registry with the metrics. A metric of prom-client counts in its own process, but these are counted elsewhere;
 * prom-client takes metrics of other processes in the form in which its registries give them out.
 */
function gather(metrics: readonly Metric[], scrape: Scrape): Registry {
  const given = metrics.map((metric) => {
    const { name, help, type } = metric;
    return { name, help, type, aggregator: 'sum', values: metric.read(scrape).flatMap((one) => valuesOf(metric, one)) };
  });
  return AggregatorRegistry.aggregate([given]);
}

function valuesOf({ name, bounds = [] }: Metric, { labels, value }: MetricSeries): object[] {
  if (typeof value === 'number') return [{ labels, value }];
  let upTo = 0;
  const buckets = value.counts.map((count, index) => {
    upTo += count;
    const le = index < bounds.length ? String(bounds[index]) : '+Inf';
    return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: upTo };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: value.sum },
    { metricName: `${name}_count`, labels, value: countOf(value) },
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
