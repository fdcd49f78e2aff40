/** Helpers that the sources share: readings with a time limit and without secrets, and checks of numbers. */
import type { ReadValue } from '../../config/compile-gate.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import type { Reading, Sample } from '../source.ts';

/** An error whose message says why there is no sample, in a sentence for people. */
export class NoSample extends Error {}

export interface ReadingOptions {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Aborted by a caller that no longer needs the reading. */
  readonly signal: AbortSignal;
  /** Texts replaced by `***` in the reason of a failure. */
  readonly secrets?: readonly string[];
}

/** Reads within `timeoutMs`. Never rejects: any error becomes the reason why there is no sample. */
export async function readWithin(
  { clock, timeoutMs, signal, secrets = [] }: ReadingOptions,
  read: (signal: AbortSignal) => Promise<Sample>,
): Promise<Reading> {
  const attempt = new AbortController();
  const late = clock.at(clock.now() + timeoutMs, () => {
    attempt.abort(new NoSample(`no answer within ${timeoutMs} ms`));
  });
  const giveUp = (): void => attempt.abort(new NoSample('the reading was cancelled'));
  if (signal.aborted) giveUp();
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    attempt.signal.throwIfAborted();
    return { ok: true, sample: await Promise.race([read(attempt.signal), rejectsWhen(attempt.signal)]) };
  } catch (error) {
    return noSample(withoutSecrets(reasonOf(attempt.signal.reason ?? error), secrets));
  } finally {
    late.cancel();
    signal.removeEventListener('abort', giveUp);
  }
}

export function noSample(reason: string): Reading {
  return { ok: false, reason };
}

/**
 * Turns a number into a sample.
 *
 * A saturation may be above 1, when more work waits than fits. A number that can be neither budget nor saturation, such
 * as a percentage, is rejected rather than clamped: clamped to 1, it would keep the gate open forever.
 *
 * @throws NoSample
 */
export function sampleOf(number: number, value: ReadValue, at: Deadline): Sample {
  const raw = `${value} ${shown(number)}`;
  if (!Number.isFinite(number)) throw new NoSample(`the number read is ${number}`);
  if (value === 'budget') {
    if (number > 1 + SLACK) throw new NoSample(`${raw}: a budget is a share of the capacity, 1 at most`);
    return { budget: number, at, raw };
  }
  if (number < -SLACK) throw new NoSample(`${raw}: a saturation is not negative`);
  return { budget: 1 - number, at, raw };
}

/**
 * Converts the timestamps of a server's clock to this machine's. The age of a sample can only be estimated, and a slow
 * connection makes the estimate too high, so the lowest age estimated for a timestamp counts.
 */
export class Stamped {
  #stamp = Number.NaN;
  #at: Deadline = Number.NEGATIVE_INFINITY;

  /** Returns the time of the sample on this machine's clock: `reckoned` or later. */
  at(stamp: number, reckoned: Deadline): Deadline {
    this.#at = stamp === this.#stamp ? Math.max(this.#at, reckoned) : reckoned;
    this.#stamp = stamp;
    return this.#at;
  }
}

/** Number of intervals kept, because a missed measurement makes one of them too long. */
const REMEMBERED = 4;

/** Derives how often something is measured from the timestamps of the measurements. */
export class Rhythm {
  #last = Number.NaN;
  #intervals: number[] = [];

  /** Returns the shortest of the latest intervals between two timestamps; undefined before the first interval. */
  see(stamp: number): number | undefined {
    if (stamp > this.#last) this.#intervals = [...this.#intervals, stamp - this.#last].slice(-REMEMBERED);
    if (!(stamp <= this.#last)) this.#last = stamp;
    return this.#intervals.length === 0 ? undefined : Math.min(...this.#intervals);
  }
}

/** Tolerance for rounding errors in a share. */
const SLACK = 1e-9;

/** Formats a number with four significant digits, for people. */
export function shown(number: number): string {
  return String(Number(number.toPrecision(4)));
}

function rejectsWhen(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
}

function reasonOf(thrown: unknown): string {
  // A name with several addresses fails with one error per address; the first one says enough.
  const error = asError(thrown instanceof AggregateError ? (thrown.errors[0] ?? thrown) : thrown);
  return error.message === '' ? error.name : error.message;
}

function withoutSecrets(reason: string, secrets: readonly string[]): string {
  // Longest first: a secret may be part of another.
  const longestFirst = [...secrets].filter((secret) => secret !== '').sort((a, b) => b.length - a.length);
  return longestFirst.reduce((text, secret) => text.replaceAll(secret, '***'), reason);
}
