/**
 * Interface and contract of a queue of work that survives its processes. process/sqlite-queue.ts implements it for one
 * Node-RED, process/bullmq-queue.ts for several, which names the points in which it departs from it.
 *
 * Contract:
 * - At-least-once execution. An `enqueue` that resolved is durable: it returns after `fsync`.
 * - At most one *effective* `ack` per claim token. Duplicates are possible, bounded by in flight x crashes.
 * - Effects are exactly once **per id within the dedupe window**, the time for which outcomes are kept.
 * - Report overload by `nack` with `countAttempt: false`, and an error of the model with `countAttempt: true`. The
 *   death of a worker, reported or seen as an expired lease, counts an attempt *and* marks the item for claiming alone.
 * - A failed call may have been carried out. Repeating a call with the same id or token does no harm.
 */
import { ModeletError } from '../../core/errors.ts';
import type { Payload } from '../../core/model.ts';

export interface QueueItem {
  /** Unique id: 1 to 128 of A-Z, a-z, 0-9, `.`, `_`, `:`, `-`. */
  readonly id: string;
  readonly payload: Payload;
  /** Items are claimed in the order of `compareWaiting`: higher first. */
  readonly priority: number;
  /** Time of day, in ms since 1970, after which the result is useless; null: none. */
  readonly deadline: number | null;
}

/** `duplicate`: the id is known; the item is not stored again. `full`: the queue is full; the item is not stored. */
export type Enqueued = 'new' | 'duplicate' | 'full';

/** Proof of a claim, valid until its lease ends. */
export interface HeldClaim {
  readonly id: string;
  /** Each claim has a new token, so calls with the token of an earlier claim of the same item have no effect. */
  readonly token: string;
}

export interface Claim extends QueueItem, HeldClaim {
  /** Attempts counted so far, this one included. */
  readonly attempt: number;
  /** The item may have killed its worker: while it is claimed, nothing else of this queue is. */
  readonly alone: boolean;
  /** Time of day in ms since 1970. */
  readonly enqueuedAt: number;
}

export interface ClaimOptions {
  readonly max: number;
  /** Time in ms after which a claim counts as lost unless extended. */
  readonly leaseMs: number;
  /** Token of the claims. A repeated token returns the claims made with it before, so a lost answer loses no lease. */
  readonly token: string;
  /** Whether to claim only items whose deadline has passed, instead of only the others. */
  readonly expired?: boolean;
}

export interface Ack extends HeldClaim {
  /** Whether the item succeeded; `result` is then its result, else its error. */
  readonly ok: boolean;
  readonly result: Payload | null;
}

export interface NackOptions {
  /** Time in ms until the item can be claimed again. A restart of the queue may shorten it. */
  readonly delayMs: number;
  /** For people. */
  readonly reason: string;
  readonly countAttempt: boolean;
  /** Whether the item is claimed alone from now on. */
  readonly alone: boolean;
}

/** `dead`: the item's attempts are exhausted. `lost`: the lease was no longer held, and nothing was done. */
export type Nacked = 'again' | 'dead' | 'lost';

/** State or outcome of an item. */
export interface ItemResult {
  /** `dead`: a dead letter, which `redrive` can put back. */
  readonly state: 'pending' | 'running' | 'done' | 'failed' | 'dead';
  /** `done`: the result; `failed`: the error; else null. */
  readonly result: Payload | null;
  readonly attempts: number;
  /** Why the item last came back or is dead; null if nothing went wrong. */
  readonly reason: string | null;
}

/** `cancelled`: the item will not run (again). `running`: too late. `unknown`: the queue holds no such item. */
export type Cancelled = 'cancelled' | 'running' | 'unknown';

export interface DeadLetter {
  readonly id: string;
  readonly attempts: number;
  readonly reason: string;
}

export interface QueueStats {
  readonly ready: number;
  readonly leased: number;
  /** Items that wait until their delay ends. */
  readonly delayed: number;
  readonly dead: number;
  /** Age of the item that waits longest, in ms; 0 if none waits. */
  readonly oldestMs: number;
  /** Time until a delay, a lease or a deadline ends, in ms, or null. */
  readonly wakeInMs: number | null;
  /** The latest dead letters, `TOLD_DEAD_LETTERS` at most. */
  readonly deadLetters: readonly DeadLetter[];
}

/** Settings that may change while the queue runs. */
export interface QueueLimits {
  /** Most items that wait; at that number `enqueue` returns `full`. */
  readonly capacity: number;
  /** Attempts after which an item is a dead letter. */
  readonly maxAttempts: number;
  /** Time for which outcomes are kept and ids stay known, in ms. */
  readonly resultTtlMs: number;
}

export interface WorkQueue {
  /** Stores the items that there is room for. @throws ModeletError `invalid_input` for an invalid id. */
  enqueue(items: readonly QueueItem[]): Promise<Enqueued[]>;
  /** Resolves at once, with an empty array if nothing can be claimed. */
  claim(options: ClaimOptions): Promise<Claim[]>;
  /** Resolves to false for a lost lease; the caller should abandon that work. */
  extend(held: readonly HeldClaim[], leaseMs: number): Promise<boolean[]>;
  /** Resolves to false for a lost lease; another claim ends or has ended that item. */
  ack(acks: readonly Ack[]): Promise<boolean[]>;
  nack(held: readonly HeldClaim[], options: NackOptions): Promise<Nacked[]>;
  deadLetter(held: readonly HeldClaim[], reason: string): Promise<boolean[]>;
  /** Puts dead letters back with all their attempts; null: every dead letter. Resolves to their number. */
  redrive(ids: readonly string[] | null): Promise<number>;
  /** Ends a waiting or dead item with the outcome `failed`. */
  cancel(id: string): Promise<Cancelled>;
  /** Resolves to null for an id that is not known, or no longer known. */
  result(id: string): Promise<ItemResult | null>;
  stats(): Promise<QueueStats>;
  configure(limits: QueueLimits): Promise<void>;
  /** Closes the queue; waiting and leased items stay in it. */
  close(): Promise<void>;
}

/** Names of the methods that another process can call. */
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

/** The synchronous form of a queue, as used in the process that owns it. */
export type WorkStore = {
  [Name in keyof WorkQueue]: (...args: Parameters<WorkQueue[Name]>) => Awaited<ReturnType<WorkQueue[Name]>>;
} & {
  /** Runs `work` as one transaction: all its changes happen, or none. */
  together<T>(work: () => T): T;
};

export interface StoreSpec {
  readonly file: string;
  /** Id of the claiming process; leases of any other session are ended. */
  readonly session: string;
  readonly limits: QueueLimits;
}

/** The clocks of a queue; tests replace them. */
export interface QueueTime {
  /** Monotonic ms, for leases and delays: the time of day jumps. */
  now(): number;
  /** Ms since 1970, for times that must stay valid after a restart of the machine. */
  wall(): number;
}

/** Most dead letters that `stats` returns. */
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

/** Tells what is wrong with a store. `away`: the server of a broker does not answer. */
export type StoreFault = 'corrupt' | 'foreign' | 'locked' | 'lost' | 'read-only' | 'full' | 'unreadable' | 'away';

/** The first Node.js with `node:sqlite` without a flag. */
const FIRST_NODE = [22, 13];

/** Why this Node.js has no usable SQLite; null if it has. */
export function whyNoSqlite(version: string = process.versions.node): string | null {
  if (isAtLeast(version, FIRST_NODE)) return null;
  return `a durable store needs Node.js ${FIRST_NODE.join('.')} or later, and this is ${version}`;
}

export function isAtLeast(version: string, least: readonly number[]): boolean {
  const parts = version.split('.').map((part) => Number.parseInt(part, 10));
  for (const [index, wanted] of least.entries()) {
    const found = parts[index] ?? 0;
    if (found !== wanted) return found > wanted;
  }
  return true;
}
