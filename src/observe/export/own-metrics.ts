/**
 * The metrics that modelets declare themselves, as metrics of the exposition. Counters and histograms are sums over the
 * workers of a stage; a gauge has the label `worker`, because only its reader knows whether to add, average or compare.
 */
import type { OwnMetric, OwnValues } from '../../core/readings.ts';
import type { StageSnapshot } from '../views/snapshot.ts';
import type { Labels, Metric, MetricSeries, Scrape } from './metric.ts';

const PREFIX = 'modelet_model_';

interface ExposedSeries {
  readonly metric: OwnMetric;
  readonly series: MetricSeries[];
}

/** Returns the modelets' metrics of this scrape, each with its series. */
export function ownMetrics({ runtimes }: Scrape): Metric[] {
  const byName = new Map<string, ExposedSeries>();
  const stages = runtimes.flatMap(({ runtime, snapshot }) => snapshot.stages.map((stage) => ofStage(runtime, stage)));
  for (const [name, one] of stages.flatMap((metrics) => [...metrics])) {
    const known = byName.get(name);
    if (!known) byName.set(name, one);
    // A name has one type; the first stage that has it decides, and the others are left out.
    else if (isAlike(one.metric, known.metric)) for (const series of one.series) known.series.push(series);
  }
  return [...byName.values()].map(asMetric);
}

/** Returns the metrics of one stage by their names. */
function ofStage(runtime: string, { name: stage, reading, workers }: StageSnapshot): Map<string, ExposedSeries> {
  const byName = new Map<string, ExposedSeries>();
  add(byName, reading.own, { runtime, stage });
  for (const { index, gauges } of workers) add(byName, gauges, { runtime, stage, worker: String(index) });
  return byName;
}

/** Adds series of one stage to their metrics. Of unlike metrics with one name, the last is that of the present code. */
function add(byName: Map<string, ExposedSeries>, values: OwnValues, place: Labels): void {
  for (const [key, series] of Object.entries(values)) {
    const metric = JSON.parse(key) as OwnMetric;
    const known = byName.get(metric.name);
    const gathered: ExposedSeries = known && isAlike(metric, known.metric) ? known : { metric, series: [] };
    byName.set(metric.name, gathered);
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
