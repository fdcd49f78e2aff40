/**
 * Reads a metric straight from a server's Prometheus endpoint, without a Prometheus.
 *
 * Uses the number as it is, or divides it by the capacity of all servers, servers x `perServer`, which is then also
 * max_SYS.
 */
import { type Clock, type Deadline, wallTime } from '../../core/clock.ts';
import type { BudgetSource, Reading, Sample, SourceServices, SourceSettings } from '../source.ts';
import { readSeries, type Series } from './exposition.ts';
import { type HttpAnswer, HttpEndpoint, placeOf, refusalOf } from './http-endpoint.ts';
import { NoSample, readWithin, Stamped, sampleOf, shown } from './reading.ts';

const ACCEPT = 'text/plain;version=0.0.4';

export class ScrapeSource implements BudgetSource {
  readonly description: string;
  readonly #settings: SourceSettings<'scrape'>;
  readonly #clock: Clock;
  readonly #url: URL;
  readonly #endpoint: HttpEndpoint;
  readonly #stamped = new Stamped();

  constructor(settings: SourceSettings<'scrape'>, services: SourceServices) {
    this.#url = new URL(settings.url);
    this.description = `${settings.metric} at ${placeOf(this.#url)}`;
    this.#settings = settings;
    this.#clock = services.clock;
    this.#endpoint = new HttpEndpoint(this.#url, services);
  }

  read(signal: AbortSignal): Promise<Reading> {
    const limits = { clock: this.#clock, timeoutMs: this.#settings.timeoutMs, signal };
    return readWithin({ ...limits, secrets: this.#endpoint.secrets }, async (until) => {
      const askedAt = this.#clock.now();
      const answer = await this.#endpoint.ask({ url: this.#url, accept: ACCEPT }, until);
      if (answer.status !== 200) throw new NoSample(refusalOf(answer));
      return this.#sampleOf(answer, askedAt);
    });
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  #sampleOf(answer: HttpAnswer, askedAt: Deadline): Sample {
    const { metric, labels, value, perServer } = this.#settings;
    const all = seriesOf(answer, metric);
    const series = theOnly(metric, having(all, labels), all.length);
    const at =
      series.time === undefined ? askedAt : this.#stamped.at(series.time, askedAt - ageMs(series.time, answer));
    if (perServer === 0) return sampleOf(series.value, value, at);
    const maxSys = this.#servers(answer) * perServer;
    const sample = sampleOf(series.value / maxSys, value, at);
    return { ...sample, maxSys, raw: `${sample.raw}: ${shown(series.value)} of ${shown(maxSys)}` };
  }

  #servers(answer: HttpAnswer): number {
    const { serversMetric, labels } = this.#settings;
    if (serversMetric === '') return 1;
    const all = seriesOf(answer, serversMetric);
    // The metric with the number of servers often lacks the labels of the load metric.
    const { value } = theOnly(serversMetric, all.length > 1 ? having(all, labels) : all, all.length);
    if (!(value > 0 && Number.isFinite(value))) throw new NoSample(`no server is ready: ${serversMetric} is ${value}`);
    return value;
  }
}

function seriesOf({ body, type }: HttpAnswer, metric: string): Series[] {
  const series = readSeries(body, metric);
  if (series.length > 0) return series;
  const plain = body.startsWith('#') || type === '' || /^(text\/plain|application\/openmetrics-text)\b/.test(type);
  throw new NoSample(`the metric ${metric} is missing${plain ? '' : ` in an answer of type ${type}`}`);
}

function having(series: readonly Series[], labels: Readonly<Record<string, string>>): readonly Series[] {
  const wanted = Object.entries(labels);
  return series.filter((one) => wanted.every(([name, value]) => one.labels.get(name) === value));
}

function theOnly(metric: string, [series, ...others]: readonly Series[], all: number): Series {
  if (!series) throw new NoSample(`no series of the metric ${metric} has these labels, of ${all}`);
  if (others.length > 0)
    throw new NoSample(`the metric ${metric} has ${others.length + 1} series: the labels must select one`);
  return series;
}

/** Returns the age of a sample with this timestamp, by the clock of its server if the answer has a Date header. */
function ageMs(time: number, { type, date }: HttpAnswer): number {
  const inMs = type.startsWith('application/openmetrics-text') ? time * 1000 : time;
  // A Date header omits the fraction of its second, so this takes the latest time that it can mean.
  const now = Number.isNaN(date) ? wallTime() : date + 999;
  return Math.max(0, now - inMs);
}
