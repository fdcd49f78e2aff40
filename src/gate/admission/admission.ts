/**
 * Decides how much a gate may admit, from its rule, its last sample, its leases, and the refusals of the system behind
 * it. Knows neither the waiting requests nor where samples come from.
 *
 * Unless a message holds the gate open, the cost in flight never exceeds max_SYS x (1 - B), and never exceeds by more
 * than N the part of it that the sample certainly includes. A request larger than all of that runs alone.
 */
import type { GateRule } from '../../config/compile-gate.ts';
import type { Clock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { type Lease, Leases } from '../leases.ts';
import type { EndedLease, LeaseEnd, Reading } from '../source.ts';
import { why } from '../why.ts';
import { fits } from './budget.ts';
import { type GateControl, type GateState, gateStateOf } from './gate-state.ts';
import { InFlightHistory } from './in-flight.ts';
import { Knowledge } from './knowledge.ts';

export interface AdmissionOptions {
  readonly id: string;
  readonly name: string;
  readonly rule: GateRule;
  readonly clock: Clock;
  /** Ready workers; times `maxConcurrency` they give max_SYS if neither the rule nor the source does. */
  readonly ready: () => number;
  /** Names the source of the samples in a few words. */
  readonly describe: () => string;
  /** Random text that makes the lease ids of this run unique. */
  readonly token: string;
}

/** A member's lease that ends together with a lease of this gate. */
interface Share {
  readonly of: Admission;
  readonly id: string;
}

export class Admission {
  readonly id: string;
  readonly #clock: Clock;
  readonly #ready: () => number;
  readonly #describe: () => string;
  readonly #leases: Leases<Share>;
  readonly #history: InFlightHistory;
  readonly #knowledge: Knowledge;
  readonly #roomListeners = new Listeners<[]>();
  readonly #endListeners = new Listeners<[LeaseEnd, Lease & EndedLease]>();
  #name: string;
  #rule: GateRule;
  /** Gates of which a composite takes one lease each; null: the gate has its own budget. */
  #members: readonly Admission[] | null = null;
  #leaveMembers: readonly (() => void)[] = [];
  #control: GateControl = 'auto';
  #lost = 0;

  constructor({ id, name, rule, clock, ready, describe, token }: AdmissionOptions) {
    this.id = id;
    this.#name = name;
    this.#rule = rule;
    this.#clock = clock;
    this.#ready = ready;
    this.#describe = describe;
    const onDue = (lease: string): boolean => this.end(lease, { kind: 'lost' });
    this.#leases = new Leases({ prefix: `${id}/${token}-`, clock, leaseMs: rule.leaseMs, onDue });
    this.#history = new InFlightHistory(rule.lagMs + rule.staleMs);
    this.#knowledge = new Knowledge(clock, () => this.#roomListeners.tell());
  }

  get name(): string {
    return this.#name;
  }

  get rule(): GateRule {
    return this.#rule;
  }

  /** The last reading, and the last refusal of the system behind the gate. */
  get knowledge(): Pick<Knowledge, 'known' | 'lastSampleAt' | 'lastRefusal'> {
    return this.#knowledge;
  }

  get controlled(): GateControl {
    return this.#control;
  }

  /** Number of leases that ended as lost: `leaseMs` passed, or a deploy lost the request. */
  get lost(): number {
    return this.#lost;
  }

  get inFlight(): number {
    return this.#leases.count;
  }

  /** Cost of all leases held, in the gate's unit. */
  get inFlightCost(): number {
    return this.#leases.cost;
  }

  /** Calls `listener` whenever there may be more room than before. Returns a function that removes the listener. */
  onRoom(listener: () => void): () => void {
    return this.#roomListeners.add(listener);
  }

  /** Calls `listener` once for each lease that ends, for any reason. Returns a function that removes the listener. */
  onEnded(listener: (end: LeaseEnd, lease: Lease & EndedLease) => void): () => void {
    return this.#endListeners.add(listener);
  }

  /** Whether a lease of this gate has not ended. */
  holds(leaseId: string): boolean {
    return this.#leases.holds(leaseId);
  }

  /**
   * Takes a lease for `cost` of this gate and of all its members. Returns null, and takes nothing, if any of them lacks
   * room. A gate that counts requests always counts 1. A request larger than the whole budget is admitted alone.
   */
  take(cost: number): Lease | null {
    if (this.#control !== 'open' && ![...this.#closure()].every((each) => each.#admits(cost))) return null;
    return this.seize(cost);
  }

  /** Takes a lease regardless of the budget, because a message asked for it. */
  seize(cost: number): Lease {
    const others = [...this.#closure()].filter((each) => each !== this);
    return this.#hold(
      cost,
      others.map((of) => ({ of, id: of.#hold(cost, []).id })),
    );
  }

  /** Ends a lease and its members' leases. Returns false if the lease has ended or belongs to another gate. */
  end(leaseId: string, end: LeaseEnd): boolean {
    const inFlightCost = this.#leases.cost;
    const held = this.#leases.end(leaseId);
    if (!held) return false;
    this.#history.note(this.#clock.now(), this.#leases.cost);
    if (end.kind === 'lost') this.#lost += 1;
    if (end.kind === 'refused') this.#knowledge.refuse(end.retryAfterMs);
    this.#endListeners.tell(end, { ...held.lease, inFlightCost });
    for (const { of, id } of held.shares) of.end(id, end);
    this.#roomListeners.tell();
    return true;
  }

  /** Takes in a reading of the source. Ignores a sample older than the last one. */
  accept(reading: Reading): void {
    this.#knowledge.accept(reading, ({ fixed, lagMs }, at) => {
      if (fixed) return 0;
      const longest = this.#rule.lagMs;
      return this.#history.lowest(at - Math.min(lagMs ?? longest, longest), at);
    });
    this.#roomListeners.tell();
  }

  /** Returns how much may be taken now, in the gate's unit; for a composite the least room of its members. */
  room(): number {
    if (this.#control === 'open') return Number.POSITIVE_INFINITY;
    const rooms = [...this.#closure()].map((each) => {
      const { room } = each.state();
      if (each.#rule.unit === this.#rule.unit) return room;
      return room >= 1 ? Number.POSITIVE_INFINITY : 0;
    });
    return Math.min(...rooms);
  }

  /** Returns the state of this gate without its members; for a composite only whether a message holds it. */
  state(): GateState {
    return gateStateOf({
      now: this.#clock.now(),
      rule: this.#rule,
      control: this.#control,
      known: this.#knowledge.known,
      latch: this.#knowledge.latch,
      ready: this.#ready(),
      inFlight: this.#leases.cost,
      composite: this.#members !== null,
    });
  }

  /** Returns the gate that limits admission: for a composite the member with the least room, else this gate. */
  tightest(): Admission {
    if (this.#members === null || this.#control !== 'auto') return this;
    const members = [...this.#closure()].filter((each) => each.#members === null || each.#control === 'close');
    const ranked = members.map((admission) => ({ admission, ...admission.state() }));
    ranked.sort((a, b) => Number(a.open) - Number(b.open) || a.room - b.room);
    return ranked[0]?.admission ?? this;
  }

  /** Returns the rest of the pause that the system behind the gate asked for, in ms. */
  refusedForMs(): number {
    const waits = [...this.#closure()].map((each) => {
      const { latch } = each.#knowledge;
      return latch.tag === 'clear' ? 0 : latch.until - this.#clock.now();
    });
    return Math.max(...waits);
  }

  /** Returns a sentence: why the gate is closed and what would open it, or how much it admits. */
  why(): string {
    const tightest = this.tightest();
    if (tightest !== this) return `by the gate "${tightest.name}": ${tightest.why()}`;
    const { cost: inFlight, count } = this.#leases;
    const state = this.state();
    const { known } = this.#knowledge;
    const raw = known.tag === 'sampled' ? (known.sample.raw ?? null) : null;
    const everyMs = known.tag === 'sampled' ? (known.sample.everyMs ?? null) : null;
    return why({ state, rule: this.#rule, raw, everyMs, source: this.#describe(), inFlight, alone: count === 1 });
  }

  control(control: GateControl): void {
    this.#control = control;
    this.#roomListeners.tell();
  }

  /**
   * Applies another rule and keeps the leases.
   * @throws ModeletError `config_invalid` if a composite would contain itself, or if a member counts another unit.
   */
  reconfigure(name: string, rule: GateRule, members: readonly Admission[] | null): void {
    for (const member of members ?? []) this.#check(member, rule);
    this.#name = name;
    this.#rule = rule;
    this.#members = members;
    for (const leave of this.#leaveMembers) leave();
    this.#leaveMembers = (members ?? []).map((member) => member.onRoom(() => this.#roomListeners.tell()));
    this.#leases.setLeaseMs(rule.leaseMs);
    this.#history.keep(rule.lagMs + rule.staleMs);
    this.#roomListeners.tell();
  }

  /** Drops the last reading after a change of source: the gate stays closed until the new source answers. */
  forget(): void {
    this.#knowledge.forget();
  }

  /** Ends all leases and admits nothing from now on. */
  close(): void {
    this.#roomListeners.clear();
    for (const leave of this.#leaveMembers) leave();
    this.#leaveMembers = [];
    for (const id of this.#leases.ids()) this.end(id, { kind: 'cancelled' });
    this.#endListeners.clear();
    this.#knowledge.close();
    this.#knowledge.accept({ ok: false, reason: 'the gate is gone' }, () => 0);
    this.#control = 'auto';
    this.#members = null;
  }

  #check(member: Admission, rule: GateRule): void {
    if (member === this || [...member.#closure()].includes(this)) {
      throw new ModeletError('config_invalid', `Gates: the gate "${member.name}" leads back to this one`);
    }
    const { unit } = member.#rule;
    if (unit !== 'requests' && unit !== rule.unit) {
      throw new ModeletError('config_invalid', `Gates: "${member.name}" counts ${unit}, this gate ${rule.unit}`);
    }
  }

  /** Returns this gate and its members, recursively, each once. */
  #closure(found: Set<Admission> = new Set()): Set<Admission> {
    if (found.has(this)) return found;
    found.add(this);
    for (const member of this.#members ?? []) member.#closure(found);
    return found;
  }

  #costOf(given: number): number {
    return this.#rule.unit === 'requests' ? 1 : given;
  }

  #admits(given: number): boolean {
    const cost = this.#costOf(given);
    const { open, limit, ceiling, maxSys } = this.state();
    if (!open) return false;
    if (fits(this.#leases.cost + cost, limit, maxSys)) return true;
    return this.#leases.count === 0 && (this.#rule.atLeastOne || !fits(cost, ceiling, maxSys));
  }

  #hold(given: number, shares: readonly Share[]): Lease {
    const lease = this.#leases.take(this.#costOf(given), shares);
    this.#history.note(this.#clock.now(), this.#leases.cost);
    return lease;
  }
}

/** Calls its listeners in rotation, for fairness: the first of one call is the last of the next. */
class Listeners<Event extends readonly unknown[]> {
  readonly #listeners = new Set<(...event: Event) => void>();
  #told = 0;

  /** Returns a function that removes the listener. A listener added twice is called once. */
  add(listener: (...event: Event) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(...event: Event): void {
    const all = [...this.#listeners];
    if (all.length === 0) return;
    const start = this.#told % all.length;
    this.#told += 1;
    for (const listener of [...all.slice(start), ...all.slice(0, start)]) listener(...event);
  }

  clear(): void {
    this.#listeners.clear();
  }
}
