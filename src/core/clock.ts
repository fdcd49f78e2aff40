/**
 * The only source of time in the runtime, so that tests can replace it.
 *
 * Times are milliseconds of CLOCK_MONOTONIC. All processes of a machine share this clock, so a deadline crosses from
 * Node-RED to the engine to a worker as a plain number.
 */

/** An absolute point in time, in milliseconds of the machine's monotonic clock. `Infinity`: no deadline. */
export type Deadline = number;

export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Returns the milliseconds of the monotonic clock, with fractions. */
  now(): number;
  /** Calls `wake` once at `at`, or as soon as possible if `at` has passed. Never keeps the process alive. */
  at(at: Deadline, wake: () => void): Timer;
}

/** The longest delay that setTimeout takes; a longer one would fire at once. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** Readings of both clocks closer together than this, in ms, are as good as one. */
const SAME_TIME_MS = 0.02;
const MOST_READINGS = 100;

const origin = originOf();

/**
 * Returns the difference between hrtime, whose origin all processes share, and performance.now(), which counts from the
 * start of the process. The system may interrupt this process between two readings, and the origin would be wrong by the
 * length of the pause for as long as the process lives: the closest of several readings counts.
 */
function originOf(): number {
  let best = { between: Number.POSITIVE_INFINITY, origin: 0 };
  for (let reading = 0; reading < MOST_READINGS && best.between > SAME_TIME_MS; reading += 1) {
    const before = performance.now();
    const [seconds, nanoseconds] = process.hrtime();
    const between = performance.now() - before;
    if (between < best.between) best = { between, origin: seconds * 1000 + nanoseconds / 1e6 - before - between / 2 };
  }
  return best.origin;
}

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

/** Returns the time of day in ms since 1970. For display only: this clock jumps, so never calculate with it. */
export function wallTime(): number {
  // biome-ignore lint/style/noRestrictedGlobals: people and charts need the time of day.
  return Date.now();
}

/** Returns the time of day, in ms since 1970, at a time of the system clock. */
export function wallTimeAt(at: number): number {
  return wallTime() - (systemClock.now() - at);
}

/** Parses the date of an HTTP header. Returns ms since 1970, or NaN if the text is not a date. */
export function httpDate(text: string): number {
  // biome-ignore lint/style/noRestrictedGlobals: the date is another machine's time of day.
  return Date.parse(text);
}

/** Settles as `work` does, or resolves at the deadline if that comes first. */
export async function atLatest(clock: Clock, deadline: Deadline, work: Promise<unknown>): Promise<void> {
  let timer: Timer | undefined;
  const late = new Promise<void>((resolve) => {
    timer = clock.at(deadline, resolve);
  });
  await Promise.race([work, late]).finally(() => timer?.cancel());
}

/** Asks at once and then by intervals, in ms. Resolves when the answer is true, at the latest at the deadline. */
export function untilTrue(clock: Clock, deadline: Deadline, everyMs: number, ask: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (ask() || clock.now() >= deadline) resolve();
      else clock.at(clock.now() + everyMs, look);
    };
    look();
  });
}

/** Returns the deadline `timeoutMs` from now; 0 means no deadline. */
export function deadlineAfter(clock: Clock, timeoutMs: number): Deadline {
  return timeoutMs > 0 ? clock.now() + timeoutMs : Number.POSITIVE_INFINITY;
}
