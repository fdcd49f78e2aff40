/** A queue in memory, only as durable as its process. Simple enough to be the reference for the embedded queue. */
import {
  type Ack,
  type Cancelled,
  type Claim,
  type ClaimOptions,
  checkItems,
  type Enqueued,
  type Held,
  type ItemResult,
  type Nacked,
  type NackOptions,
  type QueueItem,
  type QueueLimits,
  type QueueStats,
  type QueueTime,
  TOLD_DEAD_LETTERS,
  type WorkStore,
} from './work-queue.ts';

type Place =
  | { readonly tag: 'ready' }
  | { readonly tag: 'delayed'; readonly until: number }
  | { readonly tag: 'leased'; readonly token: string; readonly until: number }
  | { readonly tag: 'dead' };

interface Entry {
  readonly item: QueueItem;
  readonly seq: number;
  readonly enqueuedAt: number;
  place: Place;
  attempts: number;
  alone: boolean;
  reason: string | null;
  /** Token of the last claim after it was given back, so that a repeated call succeeds. */
  settled: string | null;
}

interface Ended {
  readonly result: ItemResult;
  readonly token: string | null;
  readonly expiresAt: number;
}

export class MemoryQueue implements WorkStore {
  readonly #time: QueueTime;
  #limits: QueueLimits;
  readonly #entries: Map<string, Entry> = new Map();
  readonly #ended: Map<string, Ended> = new Map();
  #seq = 0;

  constructor(limits: QueueLimits, time: QueueTime) {
    this.#limits = limits;
    this.#time = time;
  }

  enqueue(items: readonly QueueItem[]): Enqueued[] {
    checkItems(items);
    this.#moveOn();
    return items.map((item) => {
      if (this.#entries.has(item.id) || this.#ended.has(item.id)) return 'duplicate';
      if (this.#waiting().length >= this.#limits.capacity) return 'full';
      this.#seq += 1;
      this.#entries.set(item.id, {
        item,
        seq: this.#seq,
        enqueuedAt: this.#time.wall(),
        place: { tag: 'ready' },
        attempts: 0,
        alone: false,
        reason: null,
        settled: null,
      });
      return 'new';
    });
  }

  claim({ max, leaseMs, token, expired = false }: ClaimOptions): Claim[] {
    this.#moveOn();
    const before = this.#all().filter(({ place }) => place.tag === 'leased' && place.token === token);
    if (before.length > 0) return before.map(claimOf);
    const chosen = this.#choose(expired).slice(0, max);
    const place = { tag: 'leased', token, until: this.#time.now() + leaseMs } as const;
    for (const entry of chosen) Object.assign(entry, { place, settled: null });
    return chosen.map(claimOf);
  }

  extend(held: readonly Held[], leaseMs: number): boolean[] {
    this.#moveOn();
    return held.map(({ id, token }) => {
      const entry = this.#leased(id, token);
      if (entry) entry.place = { tag: 'leased', token, until: this.#time.now() + leaseMs };
      return entry !== null;
    });
  }

  ack(acks: readonly Ack[]): boolean[] {
    this.#moveOn();
    return acks.map(({ id, token, ok, result }) => {
      const entry = this.#leased(id, token);
      if (!entry) return this.#ended.get(id)?.token === token;
      this.#end(entry, { state: ok ? 'done' : 'failed', result, attempts: entry.attempts + 1, reason: null }, token);
      return true;
    });
  }

  nack(held: readonly Held[], { delayMs, reason, countAttempt, alone }: NackOptions): Nacked[] {
    this.#moveOn();
    return held.map(({ id, token }) => {
      const entry = this.#leased(id, token);
      if (!entry) return this.#settledBefore(id, token);
      entry.settled = token;
      entry.alone ||= alone;
      entry.reason = reason;
      if (countAttempt) entry.attempts += 1;
      entry.place = delayMs > 0 ? { tag: 'delayed', until: this.#time.now() + delayMs } : { tag: 'ready' };
      return this.#buryIfExhausted(entry) ? 'dead' : 'again';
    });
  }

  deadLetter(held: readonly Held[], reason: string): boolean[] {
    this.#moveOn();
    return held.map(({ id, token }) => {
      const entry = this.#leased(id, token);
      if (!entry) return this.#settledBefore(id, token) === 'dead';
      Object.assign(entry, { place: { tag: 'dead' }, reason, settled: token });
      return true;
    });
  }

  redrive(ids: readonly string[] | null): number {
    const dead = this.#all().filter(({ place, item }) => place.tag === 'dead' && (ids?.includes(item.id) ?? true));
    for (const entry of dead) Object.assign(entry, { place: { tag: 'ready' }, attempts: 0 });
    return dead.length;
  }

  cancel(id: string): Cancelled {
    this.#moveOn();
    const entry = this.#entries.get(id);
    if (!entry) return 'unknown';
    if (entry.place.tag === 'leased') return 'running';
    this.#end(entry, { state: 'failed', result: null, attempts: entry.attempts, reason: 'cancelled' }, null);
    return 'cancelled';
  }

  result(id: string): ItemResult | null {
    this.#moveOn();
    const ended = this.#ended.get(id);
    if (ended) return ended.result;
    const entry = this.#entries.get(id);
    if (!entry) return null;
    const { attempts, reason, place } = entry;
    const state = place.tag === 'leased' ? 'running' : place.tag === 'dead' ? 'dead' : 'pending';
    return { state, result: null, attempts, reason };
  }

  stats(): QueueStats {
    this.#moveOn();
    const count = (tag: Place['tag']): number => this.#all().filter(({ place }) => place.tag === tag).length;
    const oldest = this.#waiting()[0];
    const dead = this.#all().filter(({ place }) => place.tag === 'dead');
    const wakeInMs = Math.min(...this.#all().map((entry) => this.#changesInMs(entry)));
    return {
      ready: count('ready'),
      leased: count('leased'),
      delayed: count('delayed'),
      dead: dead.length,
      oldestMs: oldest ? Math.max(0, this.#time.wall() - oldest.enqueuedAt) : 0,
      wakeInMs: wakeInMs === Number.POSITIVE_INFINITY ? null : wakeInMs,
      deadLetters: dead
        .reverse()
        .slice(0, TOLD_DEAD_LETTERS)
        .map(({ item, attempts, reason }) => ({ id: item.id, attempts, reason: reason ?? '' })),
    };
  }

  configure(limits: QueueLimits): void {
    this.#limits = limits;
  }

  close(): void {
    // The memory of its process is all that this queue uses.
  }

  together<T>(work: () => T): T {
    return work();
  }

  /** Returns all entries, first in first out. */
  #all(): Entry[] {
    return [...this.#entries.values()];
  }

  #waiting(): Entry[] {
    return this.#all().filter(({ place }) => place.tag === 'ready' || place.tag === 'delayed');
  }

  /** Ends delays and leases that are due, and forgets expired outcomes. */
  #moveOn(): void {
    const now = this.#time.now();
    for (const [id, { expiresAt }] of this.#ended) if (expiresAt <= this.#time.wall()) this.#ended.delete(id);
    for (const entry of this.#entries.values()) {
      const { place } = entry;
      if (place.tag === 'delayed' && place.until <= now) entry.place = { tag: 'ready' };
      if (place.tag !== 'leased' || place.until > now) continue;
      Object.assign(entry, { alone: true, attempts: entry.attempts + 1, reason: 'its lease ended' });
      entry.place = { tag: 'ready' };
      this.#buryIfExhausted(entry);
    }
  }

  #changesInMs({ place, item }: Entry): number {
    const ends = 'until' in place ? place.until - this.#time.now() : Number.POSITIVE_INFINITY;
    const waits = place.tag === 'ready' || place.tag === 'delayed';
    const expires = waits && item.deadline !== null ? item.deadline - this.#time.wall() : Number.POSITIVE_INFINITY;
    return Math.max(0, Math.min(ends, expires));
  }

  #buryIfExhausted(entry: Entry): boolean {
    if (entry.attempts < this.#limits.maxAttempts) return false;
    entry.place = { tag: 'dead' };
    return true;
  }

  #choose(expired: boolean): Entry[] {
    const wall = this.#time.wall();
    const isExpired = ({ item }: Entry): boolean => item.deadline !== null && item.deadline <= wall;
    if (expired) return this.#waiting().filter(isExpired).sort(byDeadline);
    const ready = this.#all().filter((entry) => entry.place.tag === 'ready' && !isExpired(entry));
    const leased = this.#all().filter(({ place }) => place.tag === 'leased');
    if (leased.some(({ alone }) => alone)) return [];
    const alone = ready.filter((entry) => entry.alone).sort((a, b) => a.attempts - b.attempts || a.seq - b.seq);
    if (alone.length > 0) return leased.length > 0 ? [] : alone.slice(0, 1);
    return ready.sort((a, b) => b.item.priority - a.item.priority || byDeadline(a, b));
  }

  #leased(id: string, token: string): Entry | null {
    const entry = this.#entries.get(id);
    return entry?.place.tag === 'leased' && entry.place.token === token ? entry : null;
  }

  #settledBefore(id: string, token: string): Nacked {
    const entry = this.#entries.get(id);
    if (entry?.settled !== token) return 'lost';
    return entry.place.tag === 'dead' ? 'dead' : 'again';
  }

  #end(entry: Entry, result: ItemResult, token: string | null): void {
    this.#entries.delete(entry.item.id);
    this.#ended.set(entry.item.id, { result, token, expiresAt: this.#time.wall() + this.#limits.resultTtlMs });
  }
}

function byDeadline(a: Entry, b: Entry): number {
  const [mine, theirs] = [a.item.deadline ?? Number.MAX_SAFE_INTEGER, b.item.deadline ?? Number.MAX_SAFE_INTEGER];
  return mine - theirs || a.seq - b.seq;
}

function claimOf({ item, place, attempts, alone, enqueuedAt }: Entry): Claim {
  const token = place.tag === 'leased' ? place.token : '';
  return { ...item, token, attempt: attempts + 1, alone, enqueuedAt };
}
