/** What the sources share: a reading that ends in time and gives away no secret, and numbers that are what they say. */
import type { ReadValue } from '../../config/compile-gate.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import type { Reading, Sample } from '../source.ts';

/** Why there is no sample, in a sentence for people. */
export class NoSample extends Error {}

export interface Attempt {
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Aborted by who no longer wants the reading. */
  readonly signal: AbortSignal;
  /** What must not appear in a reason, whoever put it there. */
  readonly secrets?: readonly string[];
}

/** Reads within `timeoutMs`; whatever goes wrong becomes the reason why there is no sample. Never rejects. */
export async function readWithin(
  { clock, timeoutMs, signal, secrets = [] }: Attempt,
  read: (signal: AbortSignal) => Promise<Sample>,
): Promise<Reading> {
  const attempt = new AbortController();
  const late = clock.at(clock.now() + timeoutMs, () => {
    attempt.abort(new NoSample(`no answer within ${timeoutMs} ms`));
  });
  const giveUp = (): void => attempt.abort(new NoSample('the reading was given up'));
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
 * A number that was read, as a budget.
 *
 * A saturation may be above 1: more waits than there is room for. What cannot be one of the two, such as a percentage
 * that was taken for a budget, is no sample: clamped, it would hold the gate open for ever.
 *
 * @throws NoSample
 */
export function sampleOf(number: number, value: ReadValue, at: Deadline): Sample {
  const raw = `${value} ${shown(number)}`;
  if (!Number.isFinite(number)) throw new NoSample(`the number that was read is ${number}`);
  if (value === 'budget') {
    if (number > 1 + SLACK) throw new NoSample(`${raw}: a budget is a share of the capacity, 1 at most`);
    return { budget: number, at, raw };
  }
  if (number < -SLACK) throw new NoSample(`${raw}: a saturation is not negative`);
  return { budget: 1 - number, at, raw };
}

/**
 * The time of a sample that a server has stamped with its own clock. How long ago that was can only be reckoned, and
 * comes out a little longer each time that the way takes longer: of one stamp the least counts.
 */
export class Stamped {
  #stamp = Number.NaN;
  #at: Deadline = Number.NEGATIVE_INFINITY;

  /** When it was measured on this machine's clock: at `reckoned` or later. */
  at(stamp: number, reckoned: Deadline): Deadline {
    this.#at = stamp === this.#stamp ? Math.max(this.#at, reckoned) : reckoned;
    this.#stamp = stamp;
    return this.#at;
  }
}

/** So many intervals are remembered: one may be long because a measurement was missed. */
const REMEMBERED = 4;

/** How often something is measured, by the stamps of its measurements. */
export class Rhythm {
  #last = Number.NaN;
  #intervals: number[] = [];

  /** The shortest of the latest intervals between two stamps; undefined before there is one. */
  see(stamp: number): number | undefined {
    if (stamp > this.#last) this.#intervals = [...this.#intervals, stamp - this.#last].slice(-REMEMBERED);
    if (!(stamp <= this.#last)) this.#last = stamp;
    return this.#intervals.length === 0 ? undefined : Math.min(...this.#intervals);
  }
}

/** What rounding may add to a share. */
const SLACK = 1e-9;

/** Few digits, as people want them. */
export function shown(number: number): string {
  return String(Number(number.toPrecision(4)));
}

function rejectsWhen(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
}

function reasonOf(thrown: unknown): string {
  // Where a name has several addresses, the first one's failure says enough.
  const error = asError(thrown instanceof AggregateError ? (thrown.errors[0] ?? thrown) : thrown);
  return error.message === '' ? error.name : error.message;
}

function withoutSecrets(reason: string, secrets: readonly string[]): string {
  // The longest first: one may be part of another.
  const longestFirst = [...secrets].filter((secret) => secret !== '').sort((a, b) => b.length - a.length);
  return longestFirst.reduce((text, secret) => text.replaceAll(secret, '***'), reason);
}
