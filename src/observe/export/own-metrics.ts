/**
 * The metrics that modelets declare themselves, as metrics of the exposition. Counters and histograms are sums over the
 * workers of a stage; a gauge has the label `worker`, because only its reader knows whether to add, average or compare.
 */
import type { HistogramReading, OwnMetric, OwnValues } from '../../core/readings.ts';
import type { HistogramSample, Metric, NumberSample, Scrape } from './metric.ts';

const PREFIX = 'modelet_model_';

type Labels = Readonly<Record<string, string>>;
type MetricSample = NumberSample | HistogramSample;

interface MetricSamples {
  readonly metric: OwnMetric;
  readonly samples: MetricSample[];
}

/** Returns the modelets' metrics of this scrape, each with its series. */
export function ownMetrics({ runtimes }: Scrape): Metric[] {
  const byName = new Map<string, MetricSamples>();
  for (const { runtime, snapshot } of runtimes) {
    for (const { name: stage, reading, workers } of snapshot.stages) {
      add(byName, reading.own, { runtime, stage });
      for (const { index, gauges } of workers) add(byName, gauges, { runtime, stage, worker: String(index) });
    }
  }
  return [...byName.values()].map(asMetric);
}

/** Adds series to their metrics. A name has one type; the first that has it decides, and the others are left out. */
function add(byName: Map<string, MetricSamples>, values: OwnValues, place: Labels): void {
  for (const [key, series] of Object.entries(values)) {
    const metric = JSON.parse(key) as OwnMetric;
    const gathered: MetricSamples = byName.get(metric.name) ?? { metric, samples: [] };
    byName.set(metric.name, gathered);
    if (!isAlike(metric, gathered.metric)) continue;
    for (const [labels, value] of Object.entries(series)) {
      const all = { ...place, ...labelsOf(metric, JSON.parse(labels) as string[]) };
      gathered.samples.push(typeof value === 'number' ? { labels: all, value } : { labels: all, reading: value });
    }
  }
}

function isAlike(one: OwnMetric, other: OwnMetric): boolean {
  return one.type === other.type && String(one.buckets) === String(other.buckets);
}

function labelsOf({ labels }: OwnMetric, values: readonly string[]): Labels {
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? '']));
}

function asMetric({ metric, samples }: MetricSamples): Metric {
  const described = { name: `${PREFIX}${metric.name}`, help: metric.help || metric.name, labels: metric.labels };
  if (metric.type !== 'histogram') {
    return { ...described, type: metric.type, read: () => samples as readonly NumberSample[] };
  }
  const read = (): readonly HistogramSample[] =>
    samples as readonly (HistogramSample & { reading: HistogramReading })[];
  return { ...described, type: 'histogram', bounds: metric.buckets ?? [], read };
}
