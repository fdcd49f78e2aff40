/**
 * Evaluates a PromQL expression that gives one number, on Prometheus or another server with its HTTP API.
 *
 * The server stamps the number with the time of evaluation, however long ago it scraped the samples. So this source
 * also asks for the time of the oldest sample that the selectors of the expression find at that time. Both times are
 * from the server's clock, which need not agree with this machine's. An expression without selectors, or one whose
 * selectors find nothing, counts as measured when it was evaluated.
 */
import type { Clock } from '../../core/clock.ts';
import { withoutTrailing } from '../../core/text.ts';
import type { BudgetSource, Reading, Sample, SourceServices, SourceSettings } from '../source.ts';
import { type HttpAnswer, HttpEndpoint, placeOf, refusalOf } from './http-endpoint.ts';
import { NoSample, Rhythm, readWithin, Stamped, sampleOf, shown } from './reading.ts';
import { selectorsOf } from './selectors.ts';

/** A number, and the time at which the server evaluated it, in seconds by the server's clock. */
interface Evaluated {
  readonly number: number;
  readonly at: number;
}

const API = '/api/v1/query';
/** Longest part of a server's error text that is shown, in characters. */
const MAX_SAID = 200;

export class PrometheusSource implements BudgetSource {
  readonly description: string;
  readonly #settings: SourceSettings<'prometheus'>;
  readonly #clock: Clock;
  readonly #url: URL;
  readonly #endpoint: HttpEndpoint;
  /** Blank if the expressions have no selector. */
  readonly #oldestQuery: string;
  readonly #scrapes = new Stamped();
  readonly #rhythm = new Rhythm();

  constructor(settings: SourceSettings<'prometheus'>, services: SourceServices) {
    const url = new URL(settings.url);
    this.description = `PromQL at ${placeOf(url)}`;
    if (!url.pathname.endsWith(API)) url.pathname = `${withoutTrailing(url.pathname, '/')}${API}`;
    this.#url = url;
    this.#oldestQuery = oldestQueryOf([settings.query, settings.maxSysQuery]);
    this.#settings = settings;
    this.#clock = services.clock;
    this.#endpoint = new HttpEndpoint(url, services);
  }

  read(signal: AbortSignal): Promise<Reading> {
    const limits = { clock: this.#clock, timeoutMs: this.#settings.timeoutMs, signal };
    return readWithin({ ...limits, secrets: this.#endpoint.secrets }, (until) => this.#read(until));
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #read(signal: AbortSignal): Promise<Sample> {
    const { query, maxSysQuery, value } = this.#settings;
    const askedAt = this.#clock.now();
    const { number, at } = theOnlyNumber(dataOf(await this.#ask({ query }, signal)));
    const maxSys = maxSysQuery === '' ? undefined : await this.#maxSys(at, signal);
    const oldest = await this.#oldest(at, signal);
    const everyMs = Number.isFinite(oldest) ? this.#rhythm.see(Math.round(oldest * 1000)) : undefined;
    const scrapedAt = Math.min(at, oldest);
    const sample = sampleOf(number, value, this.#scrapes.at(scrapedAt, askedAt - (at - scrapedAt) * 1000));
    return {
      ...sample,
      ...(everyMs === undefined ? {} : { everyMs }),
      ...(maxSys === undefined ? {} : { maxSys, raw: `${sample.raw}, max_SYS ${shown(maxSys)}` }),
    };
  }

  /** Evaluates max_SYS at the same time as the other number. */
  async #maxSys(time: number, signal: AbortSignal): Promise<number> {
    const { maxSysQuery: query } = this.#settings;
    try {
      const { number } = theOnlyNumber(dataOf(await this.#ask({ query, time: String(time) }, signal)));
      if (number > 0 && Number.isFinite(number)) return number;
      throw new NoSample(`a capacity must be a positive number, not ${number}`);
    } catch (error) {
      throw error instanceof NoSample ? new NoSample(`max_SYS: ${error.message}`) : error;
    }
  }

  /** Returns the time of the oldest sample that counts at `time`; Infinity if that is unknown. */
  async #oldest(time: number, signal: AbortSignal): Promise<number> {
    if (this.#oldestQuery === '') return Number.POSITIVE_INFINITY;
    const answer = await this.#ask({ query: this.#oldestQuery, time: String(time) }, signal);
    // The server understood the expression, so `selectorsOf` found wrong selectors.
    if (answer.status === 400) return Number.POSITIVE_INFINITY;
    const { result } = dataOf(answer);
    const times = Array.isArray(result) ? result.map(({ value }: { value?: unknown }) => evaluated(value).number) : [];
    // A sample at no time would never be too old.
    const known = times.filter((at) => !Number.isNaN(at));
    return known.reduce((least, at) => Math.min(least, at), Number.POSITIVE_INFINITY);
  }

  #ask(form: Readonly<Record<string, string>>, signal: AbortSignal): Promise<HttpAnswer> {
    return this.#endpoint.ask({ url: this.#url, accept: 'application/json', form }, signal);
  }
}

/** Returns PromQL for the time of the oldest sample of each selector, as one series per selector. */
function oldestQueryOf(queries: readonly string[]): string {
  return [...new Set(queries.flatMap(selectorsOf))]
    .map((selector, index) => `label_replace(min(timestamp(${selector})), "selector", "${index}", "", "")`)
    .join(' or ');
}

interface QueryData {
  readonly resultType?: unknown;
  readonly result?: unknown;
}

/** @throws NoSample */
function dataOf(answer: HttpAnswer): QueryData {
  const said = parse(answer.body);
  if (said?.status === 'error') {
    throw new NoSample(`${refusalOf(answer)}: ${String(said.error).slice(0, MAX_SAID).replace(/\s+/g, ' ')}`);
  }
  if (answer.status !== 200) throw new NoSample(refusalOf(answer));
  if (said?.status !== 'success' || said.data === null || typeof said.data !== 'object') {
    throw new NoSample('the answer is not from Prometheus');
  }
  return said.data as QueryData;
}

function parse(body: string): { status?: unknown; error?: unknown; data?: unknown } | null {
  try {
    return JSON.parse(body) as object | null;
  } catch {
    return null;
  }
}

/** @throws NoSample */
function theOnlyNumber({ resultType, result }: QueryData): Evaluated {
  if (resultType === 'scalar') return evaluated(result);
  if (resultType !== 'vector' || !Array.isArray(result)) {
    throw new NoSample(`the query returned a ${String(resultType)}, not one number`);
  }
  if (result.length === 0) throw new NoSample('the metric is missing: the query returned no series');
  if (result.length > 1) throw new NoSample(`the query returned ${result.length} series, not one`);
  const [{ value }] = result as [{ value?: unknown }];
  if (value === undefined) throw new NoSample('the query returned a histogram, not a number');
  return evaluated(value);
}

function evaluated(pair: unknown): Evaluated {
  const [at, text] = Array.isArray(pair) ? (pair as unknown[]) : [];
  if (typeof at !== 'number' || typeof text !== 'string') throw new NoSample('the answer is not from Prometheus');
  return { at, number: readNumber(text) };
}

/** Reads a number, including `NaN`, `+Inf` and `-Inf` as Prometheus writes them; NaN if the text is no number. */
function readNumber(text: string): number {
  if (/^[+-]?inf$/i.test(text)) return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return text.trim() === '' ? Number.NaN : Number(text);
}
