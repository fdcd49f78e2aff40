/**
 * A queue of work that survives its processes. Interface and contract only; what it is made of stands beside it.
 *
 * Contract:
 * - At-least-once execution. An `enqueue` that resolved is durable at the stated level: after `fsync` in the embedded
 *   queue; in memory it is as durable as the process.
 * - At most one *effective* `ack` per claim token. Duplicates are possible, bounded by in flight x crashes.
 * - Effects are exactly once **per id within the dedupe window**, which is how long outcomes are kept.
 * - Overload is `nack` with `countAttempt: false`, an error of the model `nack` with `countAttempt: true`. The death of
 *   a worker, told or seen as the end of a lease, counts an attempt *and* makes the item one that is claimed alone.
 * - A call that failed may have been carried out: whoever calls again with the same id or token does no harm.
 */
import { ModeletError } from '../core/errors.ts';
import type { Payload } from '../core/model.ts';

export interface QueueItem {
  /** Tells it from all others: 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `-`. */
  readonly id: string;
  readonly payload: Payload;
  /** Higher first, then the earlier deadline, then first in first out. */
  readonly priority: number;
  /** Time of day in ms since 1970 from which on nobody wants it; null: none. */
  readonly deadline: number | null;
}

/** `duplicate`: the id is known, and the item is not stored again. `full`: as many wait as may, and it is not stored. */
export type Enqueued = 'new' | 'duplicate' | 'full';

/** What someone holds who has claimed an item: good until the lease ends. */
export interface Held {
  readonly id: string;
  /** A fresh one with each claim: what an earlier claim of the same item still does has no effect. */
  readonly token: string;
}

export interface Claim extends QueueItem, Held {
  /** Attempts counted so far, this one included. */
  readonly attempt: number;
  /** It may have killed whoever ran it: nothing else of this queue is claimed while it is. */
  readonly alone: boolean;
  /** Time of day in ms since 1970. */
  readonly enqueuedAt: number;
}

export interface ClaimOptions {
  readonly max: number;
  /** Time after which what was claimed counts as lost, unless extended. */
  readonly leaseMs: number;
  /** Becomes the token. The same again gives what it has claimed before, so that a lost answer loses no lease. */
  readonly token: string;
  /** Items whose deadline has passed; else only others. */
  readonly expired?: boolean;
}

/** The end of an item's way. */
export interface Ack extends Held {
  /** Whether it ended well; `result` is then its result, else an error to be told. */
  readonly ok: boolean;
  readonly result: Payload | null;
}

export interface NackOptions {
  /** Time until it can be claimed again. A restart of the queue may shorten it. */
  readonly delayMs: number;
  /** For people. */
  readonly reason: string;
  readonly countAttempt: boolean;
  /** Claim it alone from now on. */
  readonly alone: boolean;
}

/** `dead`: its attempts are exhausted. `lost`: the lease was no longer held, and nothing was done. */
export type Nacked = 'again' | 'dead' | 'lost';

/** What became of an id. */
export interface ItemResult {
  /** `dead`: a dead letter, which can be driven again. */
  readonly state: 'pending' | 'running' | 'done' | 'failed' | 'dead';
  /** `done`: the result; `failed`: the error; else null. */
  readonly result: Payload | null;
  /** Attempts counted so far. */
  readonly attempts: number;
  /** Why it came back last, or is dead; null where nothing went wrong. */
  readonly reason: string | null;
}

/** `cancelled`: it will not run (again). `running`: too late. `unknown`: no such item waits. */
export type Cancelled = 'cancelled' | 'running' | 'unknown';

export interface DeadLetter {
  readonly id: string;
  readonly attempts: number;
  readonly reason: string;
}

export interface QueueStats {
  readonly ready: number;
  readonly leased: number;
  /** Waiting until they may be claimed again. */
  readonly delayed: number;
  readonly dead: number;
  /** Age of the item that waits longest, in ms; 0 if none waits. */
  readonly oldestMs: number;
  /** Time until a delay, a lease or a deadline ends, in ms; null if there is none. */
  readonly wakeInMs: number | null;
  /** The latest of the dead, a few. */
  readonly deadLetters: readonly DeadLetter[];
}

/** What may change while the queue runs. */
export interface QueueLimits {
  /** Most items that wait; from then on `enqueue` says `full`. */
  readonly capacity: number;
  /** Attempts after which an item is a dead letter. */
  readonly maxAttempts: number;
  /** How long outcomes are kept, and ids known, in ms. */
  readonly resultTtlMs: number;
}

export interface WorkQueue {
  /** Stores all it has room for. @throws ModeletError `invalid_input` for an id that is none. */
  enqueue(items: readonly QueueItem[]): Promise<Enqueued[]>;
  /** Resolves at once, with nothing if nothing can be claimed. */
  claim(options: ClaimOptions): Promise<Claim[]>;
  /** False: the lease is lost, and the work should be abandoned. */
  extend(held: readonly Held[], leaseMs: number): Promise<boolean[]>;
  /** False: the lease was lost, and someone else will end it or has. */
  ack(acks: readonly Ack[]): Promise<boolean[]>;
  nack(held: readonly Held[], options: NackOptions): Promise<Nacked[]>;
  deadLetter(held: readonly Held[], reason: string): Promise<boolean[]>;
  /** Gives dead letters all their attempts again; null: all there are. Resolves to their number. */
  redrive(ids: readonly string[] | null): Promise<number>;
  /** Ends what waits or is dead; its outcome is `failed`. */
  cancel(id: string): Promise<Cancelled>;
  /** Null for an id that is not known, or no longer. */
  result(id: string): Promise<ItemResult | null>;
  stats(): Promise<QueueStats>;
  configure(limits: QueueLimits): Promise<void>;
  /** What waits or is leased stays where it is. */
  close(): Promise<void>;
}

/** What a queue can be asked for from another process. */
export type QueueCall = Exclude<keyof WorkQueue, 'close'>;

export const QUEUE_CALLS: readonly QueueCall[] = [
  'enqueue',
  'claim',
  'extend',
  'ack',
  'nack',
  'deadLetter',
  'redrive',
  'cancel',
  'result',
  'stats',
  'configure',
];

/** The same, answered at once: a queue as the process that owns it has it. */
export type WorkStore = {
  [Name in keyof WorkQueue]: (...args: Parameters<WorkQueue[Name]>) => Awaited<ReturnType<WorkQueue[Name]>>;
} & {
  /** All that `work` does happens, or nothing of it. */
  together<T>(work: () => T): T;
};

export interface StoreSpec {
  readonly file: string;
  /** Of whoever claims: leases of another session are nobody's any more. */
  readonly session: string;
  readonly limits: QueueLimits;
}

/** The clocks of a queue: tests hold them still. */
export interface QueueTime {
  /** Monotonic ms, for leases and delays: the time of day jumps. */
  now(): number;
  /** Ms since 1970, for what must mean the same after a restart of the machine. */
  wall(): number;
}

/** Most dead letters that `stats` tells of. */
export const TOLD_DEAD_LETTERS = 10;

const ID = /^[A-Za-z0-9._:-]{1,128}$/;

export function isItemId(id: string): boolean {
  return typeof id === 'string' && ID.test(id);
}

/** @throws ModeletError `invalid_input` */
export function checkItems(items: readonly QueueItem[]): void {
  for (const { id } of items) {
    if (isItemId(id)) continue;
    const found = typeof id === 'string' ? JSON.stringify(id.slice(0, 130)) : typeof id;
    throw new ModeletError('invalid_input', `an id is 1 to 128 of A-Z, a-z, 0-9, ".", "_", ":" and "-", not ${found}`);
  }
}

/** Tells what is wrong with the file of a store. */
export type StoreFault = 'corrupt' | 'foreign' | 'locked' | 'lost' | 'read-only' | 'full' | 'unreadable';
