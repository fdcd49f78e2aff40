/**
 * Who may be sent on, and how many: the rule, the last sample, what is in flight, and the refusals of the system behind
 * the gate. Knows neither who waits nor where samples come from.
 *
 * Of what is in flight this stays true at every instant, unless a message holds the gate open: never more than
 * max_SYS x (1 - B), and never more than N beyond what the sample includes for sure. One request that is larger than
 * all of that goes alone.
 */
import type { GateRule } from '../../config/compile-gate.ts';
import type { Clock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { type Lease, Leases } from '../leases.ts';
import { Listeners } from '../listeners.ts';
import type { EndedLease, LeaseEnd, Reading } from '../source.ts';
import { why } from '../why.ts';
import { fits } from './budget.ts';
import { InFlightHistory } from './in-flight.ts';
import { Knowledge } from './knowledge.ts';
import { type GateControl, type Standing, standingOf } from './standing.ts';

export interface AdmissionOptions {
  readonly id: string;
  readonly name: string;
  readonly rule: GateRule;
  readonly clock: Clock;
  /** Workers that are ready: max_SYS where it is not given. */
  readonly ready: () => number;
  /** What the samples come from, in a few words. */
  readonly describe: () => string;
  /** Told of each lease that ends, once. */
  readonly ended?: (end: LeaseEnd, lease: EndedLease) => void;
  /** Random text that tells this run's leases from those of any other. */
  readonly token: string;
}

/** A lease of another gate that ends with one of this. */
interface Share {
  readonly of: Admission;
  readonly id: string;
}

export class Admission {
  readonly id: string;
  readonly #clock: Clock;
  readonly #ready: () => number;
  readonly #describe: () => string;
  readonly #ended: (end: LeaseEnd, lease: EndedLease) => void;
  readonly #leases: Leases<Share>;
  readonly #history: InFlightHistory;
  readonly #knowledge: Knowledge;
  readonly #listeners = new Listeners();
  #name: string;
  #rule: GateRule;
  /** What a composite takes a lease of each of; null: a gate with a budget of its own. */
  #members: readonly Admission[] | null = null;
  #leaveMembers: readonly (() => void)[] = [];
  #control: GateControl = 'auto';
  #lost = 0;

  constructor({ id, name, rule, clock, ready, describe, ended = () => {}, token }: AdmissionOptions) {
    this.id = id;
    this.#name = name;
    this.#rule = rule;
    this.#clock = clock;
    this.#ready = ready;
    this.#describe = describe;
    this.#ended = ended;
    const onDue = (lease: string): boolean => this.end(lease, { kind: 'lost' });
    this.#leases = new Leases({ prefix: `${id}/${token}-`, clock, leaseMs: rule.leaseMs, onDue });
    this.#history = new InFlightHistory(rule.lagMs + rule.staleMs);
    this.#knowledge = new Knowledge(clock, () => this.#listeners.tell());
  }

  get name(): string {
    return this.#name;
  }

  get rule(): GateRule {
    return this.#rule;
  }

  get members(): readonly Admission[] | null {
    return this.#members;
  }

  /** What was read, and how the system behind the gate refused. */
  get knowledge(): Pick<Knowledge, 'known' | 'lastSampleAt' | 'lastRefusal'> {
    return this.#knowledge;
  }

  get controlled(): GateControl {
    return this.#control;
  }

  /** Leases that ended because nothing was heard of them within `leaseMs`. */
  get lost(): number {
    return this.#lost;
  }

  /** Leases that are held, in requests. */
  get inFlight(): number {
    return this.#leases.count;
  }

  /** The same in the gate's unit. */
  get inFlightCost(): number {
    return this.#leases.cost;
  }

  /** Calls `listener` whenever there may be more room than before; returns how to stop. */
  onRoom(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /**
   * Takes what a request costs, of this gate and of all its members, or nothing of any and null. A gate that counts
   * requests counts 1 whatever the cost. A request that is larger than the whole budget is let through alone.
   */
  take(cost: number): Lease | null {
    if (this.#control !== 'open' && ![...this.#closure()].every((each) => each.#admits(cost))) return null;
    return this.seize(cost);
  }

  /** Takes it whatever the budget says: by a message. */
  seize(cost: number): Lease {
    const others = [...this.#closure()].filter((each) => each !== this);
    return this.#hold(
      cost,
      others.map((of) => ({ of, id: of.#hold(cost, []).id })),
    );
  }

  /** Ends a lease, with those of the members. True the first time, false for one that has ended or is not of here. */
  end(leaseId: string, end: LeaseEnd): boolean {
    const inFlightCost = this.#leases.cost;
    const held = this.#leases.end(leaseId);
    if (!held) return false;
    this.#history.note(this.#clock.now(), this.#leases.cost);
    if (end.kind === 'lost') this.#lost += 1;
    if (end.kind === 'refused') this.#knowledge.refuse(end.retryAfterMs);
    this.#ended(end, { ...held.lease, inFlightCost });
    for (const { of, id } of held.shares) of.end(id, end);
    this.#listeners.tell();
    return true;
  }

  /** What the source has read. A sample that is older than the last one is passed over. */
  accept(reading: Reading): void {
    this.#knowledge.accept(reading, ({ fixed, lagMs }, at) => {
      if (fixed) return 0;
      const longest = this.#rule.lagMs;
      return this.#history.lowest(at - Math.min(lagMs ?? longest, longest), at);
    });
    this.#listeners.tell();
  }

  /** How much may be taken now, in the gate's unit; of a composite the least of its members'. */
  room(): number {
    if (this.#control === 'open') return Number.POSITIVE_INFINITY;
    const rooms = [...this.#closure()].map((each) => {
      const { room } = each.standing();
      if (each.#rule.unit === this.#rule.unit) return room;
      return room >= 1 ? Number.POSITIVE_INFINITY : 0;
    });
    return Math.min(...rooms);
  }

  /** Of this gate alone: of a composite it says only whether a message holds it. */
  standing(): Standing {
    return standingOf({
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

  /** The one that stands in the way: of a composite the member with the least room, else this. */
  tightest(): Admission {
    if (this.#members === null || this.#control !== 'auto') return this;
    const members = [...this.#closure()].filter((each) => each.#members === null || each.#control === 'close');
    const ranked = members.map((admission) => ({ admission, ...admission.standing() }));
    ranked.sort((a, b) => Number(a.open) - Number(b.open) || a.room - b.room);
    return ranked[0]?.admission ?? this;
  }

  /** How long the system behind the gate has asked to be left alone, in ms from now. */
  refusedForMs(): number {
    const waits = [...this.#closure()].map((each) => {
      const { latch } = each.#knowledge;
      return latch.tag === 'clear' ? 0 : latch.until - this.#clock.now();
    });
    return Math.max(...waits);
  }

  /** In a sentence: why it is closed and what would open it, or how much it admits. */
  why(): string {
    const tightest = this.tightest();
    if (tightest !== this) return `by the gate "${tightest.name}": ${tightest.why()}`;
    const { cost: inFlight, count } = this.#leases;
    const standing = this.standing();
    const { known } = this.#knowledge;
    const raw = known.tag === 'sampled' ? (known.sample.raw ?? null) : null;
    const everyMs = known.tag === 'sampled' ? (known.sample.everyMs ?? null) : null;
    return why({ standing, rule: this.#rule, raw, everyMs, source: this.#describe(), inFlight, alone: count === 1 });
  }

  control(control: GateControl): void {
    this.#control = control;
    this.#listeners.tell();
  }

  /**
   * Goes on under another rule, with its leases.
   * @throws ModeletError `config_invalid` where a composite would contain itself, or counts what a member cannot.
   */
  reconfigure(name: string, rule: GateRule, members: readonly Admission[] | null): void {
    for (const member of members ?? []) this.#check(member, rule);
    this.#name = name;
    this.#rule = rule;
    this.#members = members;
    for (const leave of this.#leaveMembers) leave();
    this.#leaveMembers = (members ?? []).map((member) => member.onRoom(() => this.#listeners.tell()));
    this.#leases.setLeaseMs(rule.leaseMs);
    this.#history.keep(rule.lagMs + rule.staleMs);
    this.#listeners.tell();
  }

  /** What was read is of another source: nothing is known until this one is read. */
  forget(): void {
    this.#knowledge.forget();
  }

  /** Ends what is held, and admits nothing any more. */
  close(): void {
    this.#listeners.clear();
    for (const leave of this.#leaveMembers) leave();
    this.#leaveMembers = [];
    for (const id of this.#leases.ids()) this.end(id, { kind: 'cancelled' });
    this.#knowledge.close();
    this.#knowledge.accept({ ok: false, reason: 'the gate is gone' }, () => 0);
    this.#control = 'auto';
    this.#members = null;
  }

  #check(member: Admission, rule: GateRule): void {
    if (member === this || [...member.#closure()].includes(this)) {
      throw new ModeletError('config_invalid', `members: the gate "${member.name}" leads back to this one`);
    }
    const { unit } = member.#rule;
    if (unit !== 'requests' && unit !== rule.unit) {
      throw new ModeletError('config_invalid', `members: "${member.name}" counts ${unit}, this gate ${rule.unit}`);
    }
  }

  /** This and all members, and theirs, each once. */
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
    const { open, limit, ceiling, maxSys } = this.standing();
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
