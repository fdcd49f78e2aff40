/**
 * Logs refused and dropped requests in one record per interval, however many there are: under overload, a line for each
 * would cost more than the requests.
 */
import type { Clock, Timer } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { counted } from '../../core/figures.ts';
import type { LogRecord } from '../../core/model.ts';

/** Errors with which the runtime itself refuses or drops. Others come from the modelet, the caller or a death. */
const COUNTED: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'unauthorized',
  'forbidden',
  'rate_limited',
  'capacity_exceeded',
  'gate_refused',
  'payload_too_large',
  'deadline_exceeded',
  'dropped',
  'stage_unavailable',
  'store_unavailable',
]);
const INTERVAL_MS = 10_000;

/** Whether errors of this code are only logged as a sum, never one by one. */
export function isRefusal(code: ErrorCode): boolean {
  return COUNTED.has(code);
}

/** Returns the counts by code, highest first, with their total and a text for people. */
export function byNumber(counts: ReadonlyMap<ErrorCode, number>): {
  readonly sorted: readonly (readonly [ErrorCode, number])[];
  readonly total: number;
  readonly text: string;
} {
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  const total = sorted.reduce((sum, [, number]) => sum + number, 0);
  return { sorted, total, text: sorted.map(([code, number]) => `${code} ${number}`).join(', ') };
}

/** An interval begins with the first refusal and ends with one record; a timer runs only during an interval. */
type Interval =
  | { readonly tag: 'quiet' }
  | { readonly tag: 'closed' }
  | {
      readonly tag: 'counting';
      readonly since: number;
      readonly timer: Timer;
      readonly counts: Map<ErrorCode, number>;
    };

export class Refusals {
  readonly #clock: Clock;
  readonly #write: (record: LogRecord) => void;
  #interval: Interval = { tag: 'quiet' };

  constructor(clock: Clock, write: (record: LogRecord) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Counts the error that a request has ended with. */
  count(code: ErrorCode): void {
    if (this.#interval.tag === 'closed' || !isRefusal(code)) return;
    if (this.#interval.tag === 'quiet') {
      const since = this.#clock.now();
      const timer = this.#clock.at(since + INTERVAL_MS, () => this.#end({ tag: 'quiet' }));
      this.#interval = { tag: 'counting', since, timer, counts: new Map() };
    }
    const { counts } = this.#interval;
    counts.set(code, (counts.get(code) ?? 0) + 1);
  }

  /** Writes the record of the current interval; counts nothing afterwards. */
  close(): void {
    this.#end({ tag: 'closed' });
  }

  #end(next: Interval): void {
    const ended = this.#interval;
    this.#interval = next;
    if (ended.tag !== 'counting') return;
    const { since, timer, counts } = ended;
    timer.cancel();
    const { sorted, total, text } = byNumber(counts);
    const seconds = Math.max(1, Math.round((this.#clock.now() - since) / 1000));
    this.#write({
      // Requests that are only dropped on purpose need no attention.
      level: sorted.every(([code]) => code === 'dropped') ? 'info' : 'warn',
      message: `refused or dropped ${counted(total, 'request')} in ${seconds} s: ${text}`,
      fields: { requests: total, seconds, codes: Object.fromEntries(sorted) },
    });
  }
}
