/**
 * The invariants of a gate, checked by separate book-keeping in whole hundredths: no epsilon, no
 * window of remembered levels, no heap. A test feeds it everything that happens and it fails where the gate errs.
 */
import assert from 'node:assert/strict';
import type { GateConfig } from '../../src/config/compile-gate.ts';
import type { ModeletError } from '../../src/core/errors.ts';
import type { Lease } from '../../src/gate/leases.ts';
import type { LeaseEnd, Sample } from '../../src/gate/source.ts';

export interface Waiting {
  readonly number: number;
  readonly cost: number;
  readonly priority: number;
  readonly deadline: number;
  /** The answers that it got; there must be exactly one in the end. */
  readonly told: (Lease | ModeletError)[];
}

interface Level {
  readonly at: number;
  readonly cost: number;
}

export class Oracle {
  readonly asked: Waiting[] = [];
  readonly held: Map<string, Lease> = new Map();
  readonly #now: () => number;
  #config: GateConfig;
  #waiting: Waiting[] = [];
  /** Every level there was, from the beginning. */
  readonly #levels: Level[] = [{ at: Number.NEGATIVE_INFINITY, cost: 0 }];
  #sample: Sample | null = null;
  #readable = false;
  /** The requests in flight that the sample includes. */
  #base = 0;
  #refusedAt = Number.NEGATIVE_INFINITY;
  #notBefore = Number.NEGATIVE_INFINITY;
  /** A message lets everything that waits through. */
  #flushing = false;
  ends = 0;

  constructor(config: GateConfig, now: () => number) {
    this.#config = config;
    this.#now = now;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  reconfigured(config: GateConfig): void {
    this.#config = config;
  }

  /** Null: the reading failed. A sample that is older than the last one tells nothing. */
  read(sample: Sample | null): void {
    if (sample && this.#sample && sample.at < this.#sample.at) return;
    this.#readable = sample !== null;
    if (!sample) return;
    this.#sample = sample;
    this.#base = sample.fixed ? 0 : this.#lowest(sample.at - this.#config.lagMs, sample.at);
  }

  asks(waiting: Waiting): void {
    this.asked.push(waiting);
    this.#waiting.push(waiting);
  }

  /** Someone was let through: everything that makes that right must be so now. */
  admitted(who: Waiting, lease: Lease): void {
    who.told.push(lease);
    assert.equal(who.told.length, 1, 'one answer each');
    assert.ok(!this.held.has(lease.id), 'a new lease');
    const before = this.#level;
    const after = before + lease.cost;
    if (!this.#flushing) {
      assert.ok(who.deadline > this.#now(), 'not after its deadline');
      assert.equal(this.#first(), who, 'in order, and no request is passed over');
      this.#checkKnowledge();
      const free = this.#free(before);
      assert.ok(free > 0, 'not at D <= B');
      const { limit, largest } = this.#limits(before, free);
      const alone = this.held.size === 0 && lease.cost > Math.min(limit, largest);
      assert.ok(alone || after <= limit + 1e-6, `${after} in flight, of ${limit}`);
      assert.ok(alone || after <= largest + 1e-6, `${after} in flight, of ${largest} at most`);
    }
    this.#leave(who);
    this.held.set(lease.id, lease);
    this.#levels.push({ at: this.#now(), cost: after });
  }

  refused(who: Waiting, error: ModeletError): void {
    who.told.push(error);
    assert.equal(who.told.length, 1, 'one answer each');
    if (error.code === 'deadline_exceeded') assert.ok(who.deadline <= this.#now(), 'not before its deadline');
    this.#leave(who);
  }

  /** The gate says that a lease has ended; `lost`: by itself, so it is the oldest, and as old as that. */
  ended(end: LeaseEnd, id: string): void {
    const lease = this.held.get(id);
    assert.ok(lease, 'a lease ends once');
    if (end.kind === 'lost') assert.ok(this.#now() - lease.admittedAt >= this.#config.leaseMs, 'not before leaseMs');
    this.held.delete(id);
    this.ends += 1;
    this.#levels.push({ at: this.#now(), cost: this.held.size === 0 ? 0 : this.#level - lease.cost });
    if (end.kind !== 'refused') return;
    this.#refusedAt = this.#now();
    this.#notBefore = Math.max(this.#notBefore, this.#now() + end.retryAfterMs);
  }

  flush(what: () => void): void {
    this.#flushing = true;
    what();
    this.#flushing = false;
  }

  /** Checks the invariants between two steps. */
  settled(): void {
    const late = [...this.held.values()].filter((lease) => this.#now() - lease.admittedAt >= this.#config.leaseMs);
    assert.equal(late.length, 0, 'no lease outlives leaseMs');
    assert.ok(
      this.#waiting.every((who) => who.deadline > this.#now()),
      'no request waits beyond its deadline',
    );
    if (this.held.size === 0 && this.#waiting.length > 0 && this.#free(Number.POSITIVE_INFINITY) > 0) {
      assert.throws(() => this.#checkKnowledge(), 'no request is forgotten');
    }
  }

  /** Fails where nothing may go. */
  #checkKnowledge(): void {
    const now = this.#now();
    assert.ok(this.#readable && this.#sample, 'not without a sample');
    const { at } = this.#sample;
    assert.ok(now - at <= this.#config.staleMs, 'not on a stale sample');
    assert.ok(at > this.#refusedAt, 'not on a sample from before the last refusal');
    assert.ok(now >= this.#notBefore, 'not before Retry-After has passed');
  }

  /** max_SYS x (D - B), in hundredths: as it was read, and with what has ended of what the sample includes. */
  #free(inFlight: number): number {
    if (!this.#sample) return 0;
    const read = hundredths(this.#sample.budget);
    const ended = read > 0 ? Math.max(0, this.#base - inFlight) * 100 : 0;
    const budget = Math.min(Number(this.#config.maxSys) * 100, Number(this.#config.maxSys) * read + ended);
    return budget - Number(this.#config.maxSys) * hundredths(this.#config.baseline);
  }

  #limits(inFlight: number, free: number): { limit: number; largest: number } {
    const { baseline, maxSys } = this.#config;
    const largest = (Number(maxSys) * (100 - hundredths(baseline))) / 100;
    return { limit: Math.max(1, Math.floor(free / 100)) + Math.min(this.#base, inFlight), largest };
  }

  /** The lowest level in that time; of two at one moment both count. */
  #lowest(from: number, to: number): number {
    const costs = this.#levels.flatMap(({ at, cost }, index) => {
      const until = this.#levels[index + 1]?.at ?? Number.POSITIVE_INFINITY;
      return at <= to && until >= from ? [cost] : [];
    });
    return Math.min(...costs);
  }

  get #level(): number {
    return (this.#levels.at(-1) as Level).cost;
  }

  #first(): Waiting | undefined {
    const inOrder = this.#waiting.toSorted(
      (a, b) => b.priority - a.priority || order(a.deadline, b.deadline) || a.number - b.number,
    );
    return inOrder[0];
  }

  #leave(who: Waiting): void {
    assert.ok(this.#waiting.includes(who), 'it waits until it is told something');
    this.#waiting = this.#waiting.filter((other) => other !== who);
  }
}

function hundredths(share: number): number {
  return Math.round(share * 100);
}

/** Infinity minus itself is no number. */
function order(a: number, b: number): number {
  return a === b ? 0 : a - b;
}
