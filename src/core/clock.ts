/**
 * Time enters the runtime here and nowhere else, so that tests can hold it still.
 *
 * Times are milliseconds of CLOCK_MONOTONIC: the same clock in every process of one machine, which is
 * what lets a deadline cross from Node-RED to engine to worker as a plain number.
 */

/** An absolute point in time, in milliseconds of the machine's monotonic clock. `Infinity`: none. */
export type Deadline = number;

export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Milliseconds of the monotonic clock, with fractions. */
  now(): number;
  /** Calls `wake` once at `at`, or as soon as possible if that has passed. Never keeps the process alive. */
  at(at: Deadline, wake: () => void): Timer;
}

/** The longest delay that setTimeout takes; a longer one would fire at once. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

// performance.now() counts from the start of the process; hrtime from an origin that all processes share.
const [seconds, nanoseconds] = process.hrtime();
const origin = seconds * 1000 + nanoseconds / 1e6 - performance.now();

export const systemClock: Clock = {
  now: () => origin + performance.now(),
  at(at, wake) {
    let handle: NodeJS.Timeout;
    const arm = (): void => {
      const delay = at - systemClock.now();
      handle = delay > LONGEST_DELAY_MS ? setTimeout(arm, LONGEST_DELAY_MS) : setTimeout(wake, Math.max(0, delay));
      handle.unref();
    };
    arm();
    return { cancel: () => clearTimeout(handle) };
  },
};

/** The time of day in ms since 1970, to be shown and never to be reckoned with: it jumps. */
export function wallTime(): number {
  // biome-ignore lint/style/noRestrictedGlobals: people and charts want the time of day.
  return Date.now();
}

/** A date as HTTP headers have it, in ms since 1970; NaN for text that is none. */
export function httpDate(text: string): number {
  // biome-ignore lint/style/noRestrictedGlobals: this is about another machine's time of day.
  return Date.parse(text);
}

/** Deadline `timeoutMs` from now; 0 means none. */
export function deadlineAfter(clock: Clock, timeoutMs: number): Deadline {
  return timeoutMs > 0 ? clock.now() + timeoutMs : Number.POSITIVE_INFINITY;
}
