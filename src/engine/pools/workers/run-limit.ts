/**
 * Limits how long a worker runs one batch or example. With a limit of the user's, by that alone. Without one, by the
 * callers: a run that goes on for long after its last caller has gone will hardly end, and keeps its worker from others.
 */
import type { Clock, Deadline, Timer } from '../../../core/clock.ts';
import type { RequestNumber } from '../../../core/model.ts';
import { type Batch, RunTimeout } from '../pool.ts';

/** A run without callers is displayed after this time, in ms: most end sooner. */
const SHOWN_AFTER_MS = 1000;

export interface Run {
  /** Time at which the worker began the run; until then, the time since which it could have. */
  readonly startedAt: number;
  /** Time since which no caller waits for the run; absent while one does. */
  readonly abandonedAt?: number;
}

export interface RunLimitHost {
  readonly clock: Clock;
  /** The runs that keep the worker busy. */
  runs(): readonly Run[];
  /** The limit that the user has set, in ms; 0 means none. */
  runTimeoutMs(): number;
  /** How long a run may go on without a caller, in ms. */
  abandonedMs(): number;
  kill(reason: RunTimeout): void;
  /** A run goes on for too long without a caller, beside others that callers wait for. Called once per worker. */
  onStuck(): void;
  onChange(): void;
}

export class RunLimit {
  readonly #host: RunLimitHost;
  #timer: Timer | null = null;
  /** Runs that had begun by this time were over the limit when it ended the worker. */
  #overSince = 0;
  /** Cancelled requests of the batches that the worker has. */
  #cancelled: Set<RequestNumber> = new Set();
  #isStuck = false;

  constructor(host: RunLimitHost) {
    this.#host = host;
  }

  /** Number of runs that go on although no caller waits for them. */
  get overdue(): number {
    const latest = this.#host.clock.now() - SHOWN_AFTER_MS;
    return this.#host.runs().filter((run) => (aloneSince(run) ?? Number.POSITIVE_INFINITY) <= latest).length;
  }

  /** Whether a run was over the limit because of which the worker was killed. */
  wasOver({ startedAt }: Pick<Run, 'startedAt'>): boolean {
    return startedAt <= this.#overSince;
  }

  /** Sets the timer if there is none. Call when the worker has got or begun a run. */
  begin(): void {
    if (!this.#timer) this.set();
  }

  /** Sets the timer by the present runs and limits. */
  set(): void {
    this.#timer?.cancel();
    const at = this.#nextLook();
    // If this process was busy, the worker's answer may be unread; the event loop reads it before the immediate runs.
    this.#timer = at === null ? null : this.#host.clock.at(at, () => void setImmediate(() => this.#look()));
  }

  /** Notes cancelled requests. A batch of which all are cancelled has no caller. @param batches those of the worker */
  cancelled(ids: readonly RequestNumber[], batches: readonly Batch[]): void {
    for (const id of ids) this.#cancelled.add(id);
    for (const batch of batches) {
      if (batch.abandonedAt !== undefined || !batch.items.every(({ id }) => this.#cancelled.has(id))) continue;
      batch.abandonedAt = this.#host.clock.now();
      this.set();
    }
  }

  /** Call when the worker has answered a batch, with those that it has left. */
  replied(batches: readonly Batch[]): void {
    if (this.#cancelled.size === 0) return;
    const left = batches.flatMap(({ items }) => items.map(({ id }) => id));
    this.#cancelled = new Set(left.filter((id) => this.#cancelled.has(id)));
    this.set();
  }

  /** Call when the worker's process has ended. */
  ended(): void {
    this.#isStuck = false;
    this.#cancelled.clear();
    this.set();
  }

  #nextLook(): Deadline | null {
    const now = this.#host.clock.now();
    const times = this.#host.runs().flatMap((run) => {
      const since = aloneSince(run);
      return since === null || since + SHOWN_AFTER_MS <= now ? [] : [since + SHOWN_AFTER_MS];
    });
    const ends = [this.#overAt(), this.#abandonedAt(), this.#isStuck ? null : this.#stuckAt()];
    const all = [...times, ...ends.filter((at) => at !== null)];
    return all.length > 0 ? Math.min(...all) : null;
  }

  #look(): void {
    const now = this.#host.clock.now();
    const isDue = (at: Deadline | null): boolean => at !== null && at <= now;
    if (isDue(this.#overAt())) {
      const limitMs = this.#host.runTimeoutMs();
      this.#overSince = now - limitMs;
      this.#host.kill(new RunTimeout(limitMs));
      return;
    }
    if (isDue(this.#abandonedAt())) {
      this.#overSince = now;
      const abandonedMs = this.#host.abandonedMs();
      const message = `a batch ran on for ${Math.round(abandonedMs / 1000)} s after its last caller had gone`;
      this.#host.kill(new RunTimeout(abandonedMs, message));
      return;
    }
    if (!this.#isStuck && isDue(this.#stuckAt())) {
      this.#isStuck = true;
      this.#host.onStuck();
    }
    this.#host.onChange();
    this.set();
  }

  /** When a run exceeds the user's limit; null if there is no limit, or no run. */
  #overAt(): Deadline | null {
    const runTimeoutMs = this.#host.runTimeoutMs();
    const runs = this.#host.runs();
    if (runTimeoutMs === 0 || runs.length === 0) return null;
    return Math.min(...runs.map(({ startedAt }) => startedAt)) + runTimeoutMs;
  }

  /** When all runs have gone on for too long without a caller; null if one has a caller, or the user's limit counts. */
  #abandonedAt(): Deadline | null {
    const ends = this.#abandonedEnds();
    return ends.length === 0 || ends.includes(null) ? null : Math.max(...(ends as Deadline[]));
  }

  #stuckAt(): Deadline | null {
    const ends = this.#abandonedEnds().filter((end) => end !== null);
    return ends.length === 0 ? null : Math.min(...ends);
  }

  #abandonedEnds(): (Deadline | null)[] {
    if (this.#host.runTimeoutMs() > 0) return [];
    return this.#host.runs().map((run) => {
      const since = aloneSince(run);
      return since === null ? null : since + this.#host.abandonedMs();
    });
  }
}

/** Returns the time since which the worker runs a batch without a caller; null if it has one. */
function aloneSince({ startedAt, abandonedAt }: Run): number | null {
  return abandonedAt === undefined ? null : Math.max(startedAt, abandonedAt);
}
