/**
 * Follows the load of a stage with the number of its workers: measures, asks size-policy.ts, and changes the number. A
 * look at the pool every fifth of a second costs nothing per item, and tells enough about runs of any length.
 *
 *   awake    workers run, or start                                      -> asleep (no request for the idle time)
 *   asleep   none runs; the stage counts as ready                       -> waking (a request)
 *   waking   the first one starts; the stage still counts as ready      -> awake (it is ready, or does not start)
 */
import type { Clock, Timer } from '../../../../core/clock.ts';
import type { ScalingStatus } from '../../../../core/model.ts';
import type { WireItem } from '../../../../wire/frames/frames.ts';
import type { PoolEvents } from '../pool.ts';
import { decideSize, GROWTH, isSpare, type Load, type NewSize, type SizeLimits } from './size-policy.ts';

/** Mean pause between two looks. The pauses differ, since looks in step with a machine's messages would see all or none. */
const LOOK_MS = 200;
/** Parts of the pauses, as even as they can be: multiples of the golden ratio. */
const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** A worker as the scaler sees it. */
interface ScaledWorker {
  readonly process: { readonly isReady: boolean };
  /** Number of batches that it has. */
  readonly load: number;
  readonly facts: { readonly batchesRun: number };
}

export interface ScalerHost {
  readonly clock: Clock;
  readonly demand: Pick<PoolEvents<WireItem>, 'oldestAt' | 'keysAt'>;
  /** The workers that serve, or start to, by index. */
  workers(): readonly ScaledWorker[];
  /** Number of batches that a worker runs at a time. */
  concurrency(): number;
  /** Whether the number may change: not while the circuit decides who serves. */
  maySwitch(): boolean;
  onResized(count: number, message: string): void;
}

/** The pool at one moment. */
interface PoolLook {
  /** Number of workers that are ready. */
  readonly ready: number;
  /** Part of their places that run batches. */
  readonly busy: number;
  /** Number that changes with each batch that a worker has answered. */
  readonly ran: number;
  /** Arrival of the oldest item in the queue; null: none waits. */
  readonly oldestAt: number | null;
}

export class Scaler {
  readonly #host: ScalerHost;
  #limits: SizeLimits;
  #state: 'awake' | 'asleep' | 'waking' = 'awake';
  /** Also a stage that may sleep begins with one, so that a deploy shows whether its code starts. */
  #count: number;
  #change: ScalingStatus['change'] = null;
  #timer: Timer | null = null;
  #pause = 0;
  /** The busy part of each look within `GROWTH.busyMs`. */
  #looks: { readonly at: number; readonly busy: number }[] = [];
  #last: PoolLook | null = null;
  /** Time since which all places are busy, one worker is spare, and all is idle; null: they are not. */
  #fullSince: number | null = null;
  #spareSince: number | null = null;
  #idleSince: number | null = null;

  /** @param count the workers that there are; default: the least */
  constructor(limits: SizeLimits, count: number | undefined, host: ScalerHost) {
    this.#limits = limits;
    this.#host = host;
    this.#count = Math.min(limits.max, Math.max(1, limits.min, count ?? 0));
    this.#lookSoon();
  }

  /** Number of workers that there should be. */
  get count(): number {
    return this.#count;
  }

  /** Whether the stage has no worker and counts as ready all the same. */
  get isAsleep(): boolean {
    return this.#state !== 'awake';
  }

  get status(): ScalingStatus {
    const { min, max } = this.#limits;
    return { min, max, wanted: this.#count, asleep: this.isAsleep, change: this.#change };
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  redefine(limits: SizeLimits): void {
    this.#limits = limits;
    this.#decide();
  }

  /** Starts a worker if none runs. Call when an item waits. */
  wake(): void {
    if (this.#state !== 'asleep') return;
    this.#decide();
  }

  /** Notes that the first worker after the sleep is ready, or that it does not start. */
  woke(): void {
    if (this.#state === 'waking') this.#state = 'awake';
  }

  #lookSoon(): void {
    this.stop();
    this.#pause = (this.#pause + GOLDEN) % 1;
    const pauseMs = LOOK_MS * (0.5 + this.#pause);
    this.#timer = this.#host.clock.at(this.#host.clock.now() + pauseMs, () => {
      this.#decide();
      if (this.#count > 0) this.#lookSoon();
    });
  }

  #decide(): void {
    const now = this.#host.clock.now();
    const look = this.#look();
    this.#note(look, now);
    if (!this.#host.maySwitch()) return;
    const next = decideSize(this.#loadAt(now, look), { count: this.#count, ready: look.ready }, this.#limits);
    if (next) this.#resize(next, now);
  }

  #resize({ count: wanted, reason }: NewSize, at: number): void {
    const before = this.#count;
    let count = wanted > before ? wanted : before;
    while (count > wanted && this.#mayEnd(count - 1)) count -= 1;
    if (count === before) return;
    this.#count = count;
    this.#change = { reason: `${changeWords(before, count)}: ${reason}`, at };
    if (before === 0) this.#state = 'waking';
    if (count === 0) this.#state = 'asleep';
    this.#host.onResized(count, this.#change.reason);
    if (count === 0) this.stop();
    else if (!this.#timer) this.#lookSoon();
  }

  /** Whether a worker has nothing to lose: no batch, and no key. */
  #mayEnd(index: number): boolean {
    return this.#host.workers()[index]?.load === 0 && this.#host.demand.keysAt(index) === 0;
  }

  #look(): PoolLook {
    const ready = this.#host.workers().filter(({ process }) => process.isReady);
    const concurrency = this.#host.concurrency();
    const running = ready.reduce((sum, { load }) => sum + Math.min(load, concurrency), 0);
    return {
      ready: ready.length,
      busy: ready.length === 0 ? 0 : running / (ready.length * concurrency),
      ran: ready.reduce((sum, { facts }) => sum + facts.batchesRun, 0),
      oldestAt: this.#host.demand.oldestAt(),
    };
  }

  #note(look: PoolLook, now: number): void {
    const { ready, busy, ran, oldestAt } = look;
    if (ready !== this.#last?.ready) {
      this.#looks = [];
      this.#fullSince = null;
      this.#spareSince = null;
    }
    this.#looks.push({ at: now, busy });
    // The oldest look that is kept is at least as old as the time that is looked at.
    while ((this.#looks[1]?.at ?? now) <= now - GROWTH.busyMs) this.#looks.shift();
    this.#fullSince = busy >= 1 ? (this.#fullSince ?? now) : null;
    const mean = this.#busyAt(now);
    this.#spareSince = mean !== null && isSpare(mean, ready) ? (this.#spareSince ?? now) : null;
    const isIdle = busy === 0 && oldestAt === null && ran === this.#last?.ran;
    this.#idleSince = isIdle ? (this.#idleSince ?? now) : null;
    this.#last = look;
  }

  #busyAt(now: number): number | null {
    const [first] = this.#looks;
    if (!first || now - first.at < GROWTH.busyMs) return null;
    return this.#looks.reduce((sum, { busy }) => sum + busy, 0) / this.#looks.length;
  }

  #loadAt(now: number, { oldestAt }: PoolLook): Load {
    const since = (at: number | null): number => (at === null ? 0 : now - at);
    return {
      busy: this.#busyAt(now),
      fullMs: since(this.#fullSince),
      spareMs: since(this.#spareSince),
      idleMs: since(this.#idleSince),
      waitMs: oldestAt === null ? null : now - oldestAt,
    };
  }
}

function changeWords(before: number, count: number): string {
  if (count === 0) return 'asleep';
  if (before === 0) return 'woke';
  const by = Math.abs(count - before);
  if (count > before) return by === 1 ? 'added a worker' : `added ${by} workers`;
  return by === 1 ? 'ended a worker' : `ended ${by} workers`;
}
