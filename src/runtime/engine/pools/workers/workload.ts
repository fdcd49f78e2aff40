/**
 * The batches and the example that one worker has, and how long they may run. With a limit of the user's, by that alone.
 * Without one, by the callers: a run that goes on for long after its last caller has gone will hardly end, and keeps its
 * worker from others. A retired worker, which has no other work left, ends soon after they have gone.
 */
import type { Clock, Deadline, Timer } from '../../../../core/clock.ts';
import type { RequestNumber } from '../../../../core/model.ts';
import type { WireItem } from '../../../../wire/frames/frames.ts';
import { type Batch, type Loss, RunTimeout } from '../pool.ts';

/** A run without callers is displayed after this time, in ms: most end sooner. */
const SHOWN_AFTER_MS = 1000;

interface WorkloadHost {
  readonly clock: Clock;
  /** Number of batches that the worker runs at a time. */
  readonly concurrency: number;
  /** The limit that the user has set, in ms; 0 means none. */
  runTimeoutMs(): number;
  /** How long a run may go on without a caller, in ms; null: as long as the user's limit lets it. */
  abandonedMs(): number | null;
  kill(reason: RunTimeout): void;
  /** A run goes on for too long without a caller, beside others that callers wait for. Called once per worker. */
  onStuck(): void;
  onChange(): void;
}

interface TimedRun {
  /** Time at which the worker began the run; until then, the time since which it could have. */
  readonly startedAt: number;
  /** Time since which no caller waits for the run; absent while one does. */
  readonly abandonedAt?: number;
}

interface Example {
  readonly example: number;
  readonly abandonedAt: Deadline;
  hasBegun: boolean;
  startedAt: number;
}

export class Workload<T extends WireItem> {
  readonly #host: WorkloadHost;
  /** Batches that the worker has begun, in that order. */
  readonly #running: Batch<T>[] = [];
  /** Batches that the worker has not begun, in the order sent. */
  readonly #waiting: Batch<T>[] = [];
  #example: Example | null = null;
  /** Fires when a run is over a limit, or is to be displayed. */
  #timer: Timer | null = null;
  /** Runs that had begun by this time were over the limit when it ended the worker. */
  #overSince = 0;
  /** Cancelled requests of the batches that the worker has. */
  #cancelled: Set<RequestNumber> = new Set();
  #isStuck = false;

  constructor(host: WorkloadHost) {
    this.#host = host;
  }

  /** Whether the worker begins the next batch as soon as it has answered one, and does not say so. */
  get #beginsByItself(): boolean {
    return this.#host.concurrency === 1;
  }

  get batches(): number {
    return this.#running.length + this.#waiting.length;
  }

  get hasExample(): boolean {
    return this.#example !== null;
  }

  /** Whether the worker has a batch beside which it must run nothing. Never if it runs one batch at a time anyway. */
  get isAlone(): boolean {
    return !this.#beginsByItself && this.#all.some(({ alone }) => alone);
  }

  /** Time since which the worker runs the oldest of its batches; null if it runs none. */
  get runsSince(): number | null {
    return this.#running.length === 0 ? null : Math.min(...this.#running.map(({ startedAt }) => startedAt));
  }

  /** Number of batches that the worker runs although no caller has waited for them for a while. */
  get overdue(): number {
    const latest = this.#host.clock.now() - SHOWN_AFTER_MS;
    return this.#runs.filter((run) => (aloneSince(run) ?? Number.POSITIVE_INFINITY) <= latest).length;
  }

  add(batch: Batch<T>): void {
    if (this.#beginsByItself && this.#running.length === 0) this.#running.push(batch);
    else this.#waiting.push(batch);
    if (!this.#timer) this.limitRun();
  }

  addExample(example: number, deadline: Deadline): void {
    const startedAt = this.#host.clock.now();
    this.#example = { example, hasBegun: this.#beginsByItself, startedAt, abandonedAt: deadline };
    if (!this.#timer) this.limitRun();
  }

  /** Notes that the worker has begun a batch, or with null its example; returns false if the worker did not have it. */
  began(number: number | null): boolean {
    const index = this.#waiting.findIndex((batch) => batch.number === number);
    const [batch] = index < 0 ? [] : this.#waiting.splice(index, 1);
    const begun = number === null ? this.#example : batch;
    if (!begun) return false;
    begun.startedAt = this.#host.clock.now();
    if (batch) this.#running.push(batch);
    else if (this.#example) this.#example.hasBegun = true;
    if (!this.#timer) this.limitRun();
    return true;
  }

  runningItem(id: RequestNumber): T | undefined {
    for (const { items } of this.#running) for (const item of items) if (item.id === id) return item;
    return undefined;
  }

  /** Takes out a batch that the worker has answered; returns null if the worker does not run such a batch. */
  answered(number: number, replies: number): Batch<T> | null {
    const batch = this.#running.find((running) => running.number === number);
    if (batch?.items.length !== replies) return null;
    this.#running.splice(this.#running.indexOf(batch), 1);
    if (this.#cancelled.size > 0) this.#forgetCancelled();
    const [following] = this.#waiting;
    if (following) following.startedAt = this.#host.clock.now();
    if (following && this.#beginsByItself) this.#running.push(...this.#waiting.splice(0, 1));
    return batch;
  }

  /** Takes out the example that the worker has run; returns false if the worker does not run it. */
  tried(example: number): boolean {
    if (this.#example?.example !== example) return false;
    this.#example = null;
    return true;
  }

  /** Notes cancelled requests. A batch of which all are cancelled has no caller. */
  cancelled(ids: readonly RequestNumber[]): void {
    for (const id of ids) this.#cancelled.add(id);
    for (const batch of this.#all) {
      if (batch.abandonedAt !== undefined || !batch.items.every(({ id }) => this.#cancelled.has(id))) continue;
      batch.abandonedAt = this.#host.clock.now();
      this.limitRun();
    }
  }

  /** Sets the timer by the present runs and limits. */
  limitRun(): void {
    this.#timer?.cancel();
    const at = this.#nextLook();
    // If this process was busy, the worker's answer may be unread; the event loop reads it before the immediate runs.
    this.#timer = at === null ? null : this.#host.clock.at(at, () => void setImmediate(() => this.#look()));
  }

  /** Takes out all that the worker has, because its process has died. */
  lost(error: Error): Omit<Loss<T>, 'error' | 'phase' | 'cause'> {
    const wasOver = (batch: Batch<T>): boolean => error instanceof RunTimeout && batch.startedAt <= this.#overSince;
    const running = this.#running.splice(0);
    const loss = {
      overrun: itemsOf(running.filter(wasOver)),
      running: itemsOf(running.filter((batch) => !wasOver(batch))),
      notStarted: itemsOf(this.#waiting.splice(0)),
      trying: this.hasExample,
    };
    this.#example = null;
    this.#isStuck = false;
    this.#cancelled.clear();
    this.limitRun();
    return loss;
  }

  get #all(): readonly Batch<T>[] {
    return [...this.#running, ...this.#waiting];
  }

  /**
   * The batches and the example that keep the worker busy. If it has begun none, something else may keep it busy: then
   * those that it was sent first count.
   */
  get #runs(): readonly TimedRun[] {
    const example = this.#example;
    const hasBegun = this.#running.length > 0 || example?.hasBegun === true;
    const batches = hasBegun ? this.#running : this.#waiting.slice(0, 1);
    return example && (!hasBegun || example.hasBegun) ? [...batches, example] : batches;
  }

  /** Forgets the cancelled requests of batches that the worker has answered. */
  #forgetCancelled(): void {
    const left = this.#all.flatMap(({ items }) => items.map(({ id }) => id));
    this.#cancelled = new Set(left.filter((id) => this.#cancelled.has(id)));
    this.limitRun();
  }

  #nextLook(): Deadline | null {
    const now = this.#host.clock.now();
    const times = this.#runs.flatMap((run) => {
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
      const abandonedMs = this.#host.abandonedMs() ?? 0;
      const message = `a batch ran on for ${Math.round(abandonedMs / 1000)} s after its last caller had gone`;
      this.#host.kill(new RunTimeout(abandonedMs, message));
      return;
    }
    if (!this.#isStuck && isDue(this.#stuckAt())) {
      this.#isStuck = true;
      this.#host.onStuck();
    }
    this.#host.onChange();
    this.limitRun();
  }

  /** When a run exceeds the user's limit; null if there is no limit, or no run. */
  #overAt(): Deadline | null {
    const runTimeoutMs = this.#host.runTimeoutMs();
    const runs = this.#runs;
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
    const abandonedMs = this.#host.abandonedMs();
    if (abandonedMs === null) return [];
    return this.#runs.map((run) => {
      const since = aloneSince(run);
      return since === null ? null : since + abandonedMs;
    });
  }
}

function itemsOf<T extends WireItem>(batches: readonly Batch<T>[]): T[] {
  return batches.flatMap(({ items }) => items);
}

/** Returns the time since which the worker runs a batch without a caller; null if it has one. */
function aloneSince({ startedAt, abandonedAt }: TimedRun): number | null {
  return abandonedAt === undefined ? null : Math.max(startedAt, abandonedAt);
}
