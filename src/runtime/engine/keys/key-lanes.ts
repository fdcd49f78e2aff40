/**
 * The keys of a keyed stage. The items of a key form a lane: they run one after another, in order of arrival, all in the
 * worker that has the key's state. The first item of each lane that is not running is ready, and batches take ready items
 * of one worker, so that a batch has at most one item of a key.
 *
 * A new key goes to the worker with the fewest keys and stays there: a hash would give two of four cameras the same
 * worker. The keys of a worker that ends pass to the next worker at its index, or, after a time, to other workers.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Clock, Timer } from '../../../core/clock.ts';
import { BYTES_PER_MB, type KeysStatus } from '../../../core/model.ts';
import { Fifo, type FifoNode, PriorityFifo } from '../../../core/queues/fifo.ts';
import type { GatherReport } from '../../../core/routes/gather.ts';
import { itemKeyOf, MOST_KEYS } from '../../../core/text.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import { keyIn, withStart } from '../../../wire/frames/key-snapshots.ts';
import type { FreeWorker, WorkerPool } from '../pools/pool.ts';
import { type BatchSource, takeFrom } from '../stage/batching.ts';
import { type Item, isAlone } from '../stage/item.ts';
import type { KeptState } from './kept-states.ts';
import { KeySnapshots } from './key-snapshots.ts';

/** How long the keys of a worker that ended wait for the next one at its index, in ms. */
export const HAND_OVER_MS = 2000;

interface Lane {
  readonly key: number;
  /** In order of arrival. */
  readonly waiting: Fifo<Item>;
  running: Item | null;
  /** Null: the next item chooses a worker. */
  home: Home | null;
  /** Number of this stay at a worker. A worker that sees another number begins with an empty state. */
  tenure: number;
  /** The process that has the running item, or had the last. */
  life: object | null;
  /** The process that has the key's state: it has answered an item of this stay. Null: the key has no state there. */
  keeper: object | null;
  /** The first waiting item among the ready items of the home; null: it is not ready. */
  ready: FifoNode<Item> | null;
  /** Its place among the idle lanes; null: it has items. */
  idle: { readonly node: FifoNode<Lane>; readonly since: number } | null;
}

/** The place of a worker, whose processes come and go. */
class Home {
  readonly ready: PriorityFifo<Item> = new PriorityFifo();
  /** Number of its lanes. */
  keys = 0;
  /** The present process; null before the first. */
  life: object | null = null;
  /** Time since which no process serves; null while one does. */
  goneSince: number | null;
  /** Whether its lanes must choose another home. */
  isAbandoned = false;

  constructor(goneSince: number | null) {
    this.goneSince = goneSince;
  }
}

interface KeyedQueue {
  /** Whether an item must run alone: only empty workers get batches then. */
  readonly hasAlone: boolean;
  remove(item: Item): void;
}

export class KeyLanes {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  readonly #queue: KeyedQueue;
  #idleMs = 0;
  readonly #snapshots: KeySnapshots = new KeySnapshots();
  readonly #lanes: Map<number, Lane> = new Map();
  /** Places of the queued items in their lanes. */
  readonly #nodes: Map<Item, FifoNode<Item>> = new Map();
  readonly #idle: Fifo<Lane> = new Fifo();
  #homes: Home[] = [];
  /** Lanes with items and without a home. */
  readonly #homeless: Set<Lane> = new Set();
  #tenures = 0;
  #lost = 0;
  /** Whether the workers are hosts, which have workers behind them. */
  #areHosts = false;
  /** Fires when keys need not wait any longer for the next worker at their index. */
  #timer: Timer | null = null;

  /** @param onDue called when keys may pass to other workers */
  constructor(clock: Clock, onDue: () => void, queue: KeyedQueue) {
    this.#clock = clock;
    this.#onDue = onDue;
    this.#queue = queue;
  }

  get status(): KeysStatus {
    this.#forgetIdle();
    return { open: this.#lanes.size, lost: this.#lost };
  }

  /** Counts keys that have lost their states within a host. */
  noteLost(keys: number): void {
    this.#lost += keys;
  }

  /** Returns the number of keys of a worker. */
  countAt(worker: number): number {
    this.#forgetIdle();
    return this.#homes[worker]?.keys ?? 0;
  }

  redefine({ modelet, remote }: Pick<StageDefinition, 'modelet' | 'remote'>): void {
    this.#idleMs = modelet.keyIdleMs;
    this.#snapshots.maxBytes = modelet.keySnapshotMb * BYTES_PER_MB;
    this.#areHosts = remote !== null;
  }

  /** The snapshots of all keys. */
  get states(): readonly KeptState[] {
    this.#forgetIdle();
    return this.#snapshots.all;
  }

  /** Takes the snapshots that another engine has left. */
  restore(states: readonly KeptState[]): void {
    for (const [key, snapshot] of states) {
      const hash = itemKeyOf(key)?.hash;
      if (hash === undefined) continue;
      this.#snapshots.set(hash, key, snapshot);
      this.#refresh(this.#laneOf(hash));
    }
  }

  /** Takes an item that has entered the queue. @param first whether it goes before the others of its key */
  queued(item: Item, first: boolean): void {
    this.#forgetIdle();
    const lane = this.#laneOf(item.key);
    this.#nodes.set(item, first ? lane.waiting.unshift(item) : lane.waiting.push(item));
    this.#refresh(lane);
  }

  /** Notes that an item has left the queue. */
  gone(item: Item): void {
    const node = this.#nodes.get(item);
    const lane = this.#lanes.get(item.key);
    if (!node || !lane) return;
    this.#nodes.delete(item);
    lane.waiting.remove(node);
    this.#refresh(lane);
  }

  /** Notes that a worker gets an item, which is still in the queue. */
  began(item: Item): void {
    const lane = this.#laneOf(item.key);
    lane.running = item;
    lane.life = lane.home?.life ?? null;
    item.tenure = lane.tenure;
    this.#refresh(lane);
  }

  /** Returns metas with the states of keys, for the items that have just begun in a worker without that state. */
  statesFor(items: readonly Item[]): ReadonlyMap<WireItem, Uint8Array> | null {
    const states = items.flatMap((item) => {
      const { keeper, life } = this.#laneOf(item.key);
      if (keeper === life) return [];
      // The state that the runtime of a host sends is newer than any here. A host may know the key from an earlier stay.
      const known = keyIn(item).state === '' ? this.#snapshots.metaOf(item) : null;
      const meta = known ?? (this.#areHosts ? withStart(item) : null);
      return meta ? [[item, meta] as const] : [];
    });
    return states.length > 0 ? new Map(states) : null;
  }

  /** Notes that no worker has the item any more. @param reply the worker's answer to it; null: none */
  ended(item: Item, reply: Pick<WireItem, 'meta' | 'timings'> | null): void {
    const lane = this.#lanes.get(item.key);
    if (lane?.running !== item) return;
    lane.running = null;
    // The items that no worker of a host has run have no timing.
    const hasRun = reply !== null && !(this.#areHosts && reply.timings.length === 0);
    if (hasRun && this.#snapshots.answered(item, reply.meta)) this.#noteKept(lane);
    else if (hasRun) lane.keeper = null;
    if (hasRun && reply.meta && item.leg.route.forEngine) item.gathered = reportOf(reply.meta);
    this.#refresh(lane);
  }

  /** Whether the item may run in a worker now. */
  mayRun(item: Item, worker: number): boolean {
    const lane = this.#lanes.get(item.key);
    return (
      lane !== undefined &&
      lane.running === null &&
      lane.waiting.first?.value === item &&
      lane.home === this.#homes[worker]
    );
  }

  /**
   * Lets the workers of a pool get batches, until none has room or no batch is due.
   * @param send sends the worker a batch if one is due; returns whether it did
   */
  dispatch(pool: WorkerPool<Item>, send: (worker: FreeWorker<Item>) => boolean): void {
    this.#follow(pool.lives ?? []);
    for (const [index, home] of this.#homes.entries()) {
      for (let sent = true; sent; ) {
        const room = this.#queue.hasAlone ? 'empty' : 'place';
        const worker = home.ready.size > 0 ? pool.freeWorker(room, index) : null;
        sent = worker !== null && send(worker);
      }
    }
  }

  /** Returns the items that may share the next batch of a worker. */
  sourceAt(worker: number): BatchSource {
    const ready: Iterable<Item> & { readonly size: number } = this.#homes[worker]?.ready ?? new PriorityFifo<Item>();
    const arrivals = (): number[] => [...ready].flatMap((item) => (isAlone(item) ? [] : [item.arrivedAt]));
    return {
      batchable: this.#queue.hasAlone ? arrivals().length : ready.size,
      // Not all at once: a call has too little stack for the items of a long queue.
      get oldestAt() {
        return arrivals().reduce((oldest, at) => Math.min(oldest, at), Number.POSITIVE_INFINITY);
      },
      get newestAt() {
        return arrivals().reduce((newest, at) => Math.max(newest, at), 0);
      },
      take: (count, claim, costs) => takeFrom(ready, { count, costs, claim }, (item) => this.#queue.remove(item)),
      [Symbol.iterator]: () => ready[Symbol.iterator](),
    };
  }

  /** Follows the workers, and gives lanes without a home one. @param lives see `WorkerPool` */
  #follow(lives: readonly (object | null)[]): void {
    const now = this.#clock.now();
    this.#forgetIdle();
    for (const home of this.#homes.splice(lives.length)) this.#abandon(home);
    for (const [index, life] of lives.entries()) this.#homes[index] = this.#followed(this.#homes[index], life, now);
    const isServed = this.#homes.some(({ goneSince }) => goneSince === null);
    for (const [index, home] of this.#homes.entries()) {
      if (!isServed || home.keys === 0 || !isOverdue(home, now)) continue;
      this.#homes[index] = new Home(home.goneSince);
      this.#abandon(home);
    }
    for (const lane of this.#homeless) this.#refresh(lane);
    this.#setTimer(now);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #followed(known: Home | undefined, life: object | null, now: number): Home {
    const home = known ?? new Home(life === null ? now : null);
    if (life === null) {
      home.goneSince ??= now;
      return home;
    }
    if (home.life !== life) this.#loseStates(home);
    home.life = life;
    home.goneSince = null;
    return home;
  }

  /** Notes that the process of a lane has the key's state, or had it: the process may have been replaced meanwhile. */
  #noteKept(lane: Lane): void {
    if (lane.keeper === lane.life) return;
    lane.keeper = lane.life;
    if (!hasState(lane) && !this.#snapshots.has(lane.key)) this.#lost += 1;
  }

  #loseStates(home: Home): void {
    if (home.life === null) return;
    for (const lane of this.#lanes.values()) {
      if (lane.home === home && hasState(lane) && !this.#snapshots.has(lane.key)) this.#lost += 1;
    }
  }

  #abandon(home: Home): void {
    this.#loseStates(home);
    home.isAbandoned = true;
    for (const { key } of home.ready) this.#refresh(this.#laneOf(key));
  }

  #setTimer(now: number): void {
    this.stop();
    const due = this.#homes
      .filter((home) => home.goneSince !== null && home.ready.size > 0 && !isOverdue(home, now))
      .map(({ goneSince }) => (goneSince ?? now) + HAND_OVER_MS);
    if (due.length > 0) this.#timer = this.#clock.at(Math.min(...due), this.#onDue);
  }

  #laneOf(key: number): Lane {
    const known = this.#lanes.get(key);
    if (known) return known;
    const place = { home: null, tenure: 0, life: null, keeper: null };
    const lane: Lane = { key, waiting: new Fifo(), running: null, ...place, ready: null, idle: null };
    this.#lanes.set(key, lane);
    return lane;
  }

  /** Makes a lane ready, idle, or neither. Call after each change. */
  #refresh(lane: Lane): void {
    const first = lane.running ? undefined : lane.waiting.first?.value;
    if (lane.ready && (lane.ready.value !== first || lane.home?.isAbandoned)) {
      lane.home?.ready.remove(lane.ready);
      lane.ready = null;
    }
    if (!lane.running && lane.home?.isAbandoned) {
      lane.home = null;
      lane.keeper = null;
    }
    this.#noteIdle(lane, lane.running === null && lane.waiting.size === 0);
    if (!first || lane.ready) return;
    lane.home ??= this.#newHome(lane);
    if (lane.home) lane.ready = lane.home.ready.push(first.priority, first);
  }

  #newHome(lane: Lane): Home | null {
    const now = this.#clock.now();
    const homes = this.#homes.filter((home) => !isOverdue(home, now));
    const [first] = homes;
    if (!first) {
      this.#homeless.add(lane);
      return null;
    }
    this.#homeless.delete(lane);
    const home = homes.reduce((fewest, other) => (other.keys < fewest.keys ? other : fewest), first);
    home.keys += 1;
    this.#tenures = (this.#tenures % 0xffff_ffff) + 1;
    lane.tenure = this.#tenures;
    return home;
  }

  #noteIdle(lane: Lane, isIdle: boolean): void {
    if (isIdle && lane.home === null && !this.#snapshots.has(lane.key)) {
      this.#forget(lane);
    } else if (isIdle && !lane.idle) {
      lane.idle = { node: this.#idle.push(lane), since: this.#clock.now() };
    } else if (!isIdle && lane.idle) {
      this.#idle.remove(lane.idle.node);
      lane.idle = null;
    }
  }

  #forgetIdle(): void {
    const before = this.#clock.now() - this.#idleMs;
    for (const lane of this.#idle) {
      if ((lane.idle?.since ?? 0) > before && this.#lanes.size <= MOST_KEYS) break;
      this.#forget(lane);
    }
  }

  #forget(lane: Lane): void {
    if (lane.home) lane.home.keys -= 1;
    this.#snapshots.forget(lane.key);
    if (lane.idle) this.#idle.remove(lane.idle.node);
    this.#homeless.delete(lane);
    this.#lanes.delete(lane.key);
  }
}

/** Returns the report that brings the runtime of a host the snapshot of a state. */
function reportOf(snapshot: Uint8Array): GatherReport {
  return { gathered: [], branches: {}, failed: null, state: Buffer.from(snapshot).toString('base64') };
}

/** Whether the process at the lane's home has the key's state. */
function hasState({ home, keeper }: Lane): boolean {
  return home !== null && !home.isAbandoned && keeper !== null && keeper === home.life;
}

function isOverdue({ goneSince }: Home, now: number): boolean {
  return goneSince !== null && now - goneSince >= HAND_OVER_MS;
}
