/**
 * Logs requests whose failure no node catches: the first ones in full, the others in one line per interval with their
 * number by code. A client that sends only invalid requests must not fill the disk.
 */
import type { Clock } from '../../core/clock.ts';
import type { ErrorCode, ModeletError } from '../../core/errors.ts';
import { byNumber } from './refusals.ts';

const INTERVAL_MS = 10_000;
/** Number of failures logged in full in the first interval of a series, and in each further interval. */
const FIRST = 5;
const FURTHER = 1;

/** A series begins with the first failure and lasts until an interval has none. */
type FailureSeries =
  | { readonly tag: 'quiet' }
  | { readonly tag: 'failing'; whole: number; readonly counts: Map<ErrorCode, number> };

/** The failed request that a line tells of, for programs; a sum of several has none. */
export interface FailureFields {
  readonly code?: ErrorCode;
  readonly requestId?: string;
}

export class Failures {
  readonly #clock: Clock;
  readonly #write: (line: string, fields: FailureFields) => void;
  #series: FailureSeries = { tag: 'quiet' };

  constructor(clock: Clock, write: (line: string, fields: FailureFields) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Writes a line about the error of a request, or only counts it. */
  note({ code, message }: Pick<ModeletError, 'code' | 'message'>, requestId: string): void {
    const series = this.#series.tag === 'failing' ? this.#series : this.#interval(FIRST);
    this.#series = series;
    if (series.whole < 1) {
      series.counts.set(code, (series.counts.get(code) ?? 0) + 1);
      return;
    }
    series.whole -= 1;
    this.#write(`${code}: ${message}`, { code, requestId });
  }

  #interval(whole: number): Extract<FailureSeries, { tag: 'failing' }> {
    this.#clock.at(this.#clock.now() + INTERVAL_MS, () => this.#end());
    return { tag: 'failing', whole, counts: new Map() };
  }

  #end(): void {
    if (this.#series.tag === 'quiet') return;
    const { counts } = this.#series;
    this.#series = counts.size === 0 ? { tag: 'quiet' } : this.#interval(FURTHER);
    if (counts.size === 0) return;
    const { total, text } = byNumber(counts);
    this.#write(`${total} more ${total === 1 ? 'request' : 'requests'} failed in ${INTERVAL_MS / 1000} s: ${text}`, {});
  }
}
