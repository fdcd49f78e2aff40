/**
 * The metrics that modelets declare themselves, as metrics of the exposition. Counters and histograms are sums over the
 * workers of a stage; a gauge has the label `worker`, because only its reader knows whether to add, average or compare.
 */
import type { OwnMetric, OwnValues } from '../../core/readings.ts';
import type { Labels, Metric, MetricSeries, Scrape } from './metric.ts';

const PREFIX = 'modelet_model_';

interface ExposedSeries {
  readonly metric: OwnMetric;
  readonly series: MetricSeries[];
}

/** Returns the modelets' metrics of this scrape, each with its series. */
export function ownMetrics({ runtimes }: Scrape): Metric[] {
  const byName = new Map<string, ExposedSeries>();
  for (const { runtime, snapshot } of runtimes) {
    for (const { name: stage, reading, workers } of snapshot.stages) {
      add(byName, reading.own, { runtime, stage });
      for (const { index, gauges } of workers) add(byName, gauges, { runtime, stage, worker: String(index) });
    }
  }
  return [...byName.values()].map(asMetric);
}

/** Adds series to their metrics. A name has one type; the first that has it decides, and the others are left out. */
function add(byName: Map<string, ExposedSeries>, values: OwnValues, place: Labels): void {
  for (const [key, series] of Object.entries(values)) {
    const metric = JSON.parse(key) as OwnMetric;
    const gathered: ExposedSeries = byName.get(metric.name) ?? { metric, series: [] };
    byName.set(metric.name, gathered);
    if (!isAlike(metric, gathered.metric)) continue;
    for (const [labels, value] of Object.entries(series)) {
      gathered.series.push({ labels: { ...place, ...labelsOf(metric, JSON.parse(labels) as string[]) }, value });
    }
  }
}

function isAlike(one: OwnMetric, other: OwnMetric): boolean {
  return one.type === other.type && String(one.buckets) === String(other.buckets);
}

function labelsOf({ labels }: OwnMetric, values: readonly string[]): Labels {
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? '']));
}

function asMetric({ metric: { type, name, help, labels, buckets = [] }, series: all }: ExposedSeries): Metric {
  return { type, name: `${PREFIX}${name}`, help: help || name, labels, bounds: buckets, read: () => all };
}
