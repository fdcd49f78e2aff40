/**
 * The metrics that a modelet declares itself, in its worker. Counters and histograms hold what they have gained since
 * the last report, which `take` returns with the new values of gauges. metrics.py does the same for Python.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { finiteSum, MOST_OWN_METRICS, MOST_OWN_SERIES, type OwnMetric } from '../../../core/readings.ts';
import { Histogram } from '../../../observe/meters/histogram.ts';
import type { OwnChanges } from '../../../wire/frames/bodies.ts';
import { DEFAULT_BUCKETS, ruledMetric, ruledNumber, seriesKey } from './metric-rules.ts';
import type {
  HistogramOptions,
  MetricLabels,
  ModeletCounter,
  ModeletGauge,
  ModeletHistogram,
  ModeletMetrics,
} from './modelet.ts';

/** The values of a metric with one set of label values. */
interface OwnSeries {
  readonly metric: Declared;
  readonly labels: string;
  /** The gain of a counter, or the value of a gauge. */
  value: number;
  /** The gain of a histogram. */
  histogram: Histogram | null;
}

interface Declared {
  readonly about: OwnMetric;
  /** The description as JSON. */
  readonly key: string;
  readonly series: Map<string, OwnSeries>;
}

export class OwnMetrics implements ModeletMetrics {
  readonly #onChange: () => void;
  readonly #declared: Map<string, Declared> = new Map();
  readonly #changed: Set<OwnSeries> = new Set();
  /** Whether the present call is an example, which may run beside the calls of requests. */
  readonly #quiet: AsyncLocalStorage<true> = new AsyncLocalStorage();
  #series = 0;
  #dropped = 0;
  #droppedAt = '';

  /** @param onChange called with the first change after each `take` */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  get haveChanged(): boolean {
    return this.#changed.size > 0 || this.#dropped > 0;
  }

  counter(name: string, help = '', labels: readonly string[] = []): ModeletCounter {
    const metric = this.#declare({ type: 'counter', name, help, labels });
    return {
      inc: (value = 1, of = {}) => this.#add(metric, ruledNumber(metric.about, value, 0), of),
    };
  }

  gauge(name: string, help = '', labels: readonly string[] = []): ModeletGauge {
    const metric = this.#declare({ type: 'gauge', name, help, labels });
    const inc = (value: number, of: MetricLabels): void => this.#add(metric, ruledNumber(metric.about, value), of);
    return {
      set: (value, of = {}) => {
        const set = ruledNumber(metric.about, value);
        this.#change(metric, of, (series) => {
          series.value = set;
        });
      },
      inc: (value = 1, of = {}) => inc(value, of),
      dec: (value = 1, of = {}) => inc(-value, of),
    };
  }

  histogram(name: string, options: HistogramOptions = {}): ModeletHistogram {
    const { help = '', labels = [], buckets = DEFAULT_BUCKETS } = options;
    const metric = this.#declare({ type: 'histogram', name, help, labels, buckets });
    return {
      observe: (value, of = {}) => {
        const observed = ruledNumber(metric.about, value);
        this.#change(metric, of, (series) => {
          series.histogram ??= new Histogram(metric.about.buckets ?? []);
          series.histogram.observe(observed);
        });
      },
    };
  }

  /** Runs examples, which appear in no count. Gauges still change. */
  quietly<Result>(run: () => Promise<Result>): Promise<Result> {
    return this.#quiet.run(true, run);
  }

  /** Returns the changes since the last call; null if nothing has changed. */
  take(): OwnChanges | null {
    if (!this.haveChanged) return null;
    const counts: Record<string, Record<string, OwnChanges['counts'][string][string]>> = {};
    const gauges: Record<string, Record<string, number>> = {};
    for (const series of this.#changed) {
      const { metric, labels, value, histogram } = series;
      if (metric.about.type === 'gauge') {
        gauges[metric.key] ??= {};
        (gauges[metric.key] as Record<string, number>)[labels] = value;
        continue;
      }
      counts[metric.key] ??= {};
      const read = histogram?.read();
      const gained = read ? { ...read, sum: finiteSum(read.sum, 0) } : value;
      (counts[metric.key] as Record<string, unknown>)[labels] = gained;
      series.value = 0;
      series.histogram = null;
    }
    const dropped = this.#dropped;
    this.#changed.clear();
    this.#dropped = 0;
    return { counts, gauges, dropped, ...(dropped > 0 ? { droppedAt: this.#droppedAt } : {}) };
  }

  /** @throws TypeError if the description breaks a rule, or if the name has another meaning already */
  #declare(asked: OwnMetric): Declared {
    const about = ruledMetric(asked, this.#declared.get(asked.name)?.about ?? null);
    const known = this.#declared.get(about.name);
    if (known) return known;
    const declared: Declared = { about, key: JSON.stringify(about), series: new Map() };
    // A metric beyond the limit works, but is not reported.
    if (this.#declared.size < MOST_OWN_METRICS) this.#declared.set(about.name, declared);
    return declared;
  }

  #add(metric: Declared, value: number, labels: MetricLabels): void {
    this.#change(metric, labels, (series) => {
      series.value = finiteSum(series.value, value);
    });
  }

  #change(metric: Declared, labels: MetricLabels, apply: (series: OwnSeries) => void): void {
    const key = seriesKey(metric.about, labels);
    if (metric.about.type !== 'gauge' && this.#quiet.getStore()) return;
    const isFirst = !this.haveChanged;
    const series = this.#find(metric, key);
    if (series) {
      apply(series);
      this.#changed.add(series);
    } else {
      this.#droppedAt = this.#dropped === 0 ? metric.about.name : this.#droppedAt;
      this.#dropped += 1;
    }
    if (isFirst) this.#onChange();
  }

  #find(metric: Declared, labels: string): OwnSeries | null {
    const known = metric.series.get(labels);
    if (known) return known;
    if (this.#series >= MOST_OWN_SERIES || this.#declared.get(metric.about.name) !== metric) return null;
    const series: OwnSeries = { metric, labels, value: 0, histogram: null };
    metric.series.set(labels, series);
    this.#series += 1;
    return series;
  }
}
