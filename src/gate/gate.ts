/**
 * A gate whose waiting room is in memory. Answers every request exactly once: admits it with a lease, or refuses it
 * with an error.
 */
import { randomBytes } from 'node:crypto';
import type { GateConfig } from '../config/compile-gate.ts';
import type { Clock, Deadline } from '../core/clock.ts';
import { asError, type ModeletError } from '../core/errors.ts';
import { GATE_DECISIONS, type GateDecision, type GateSnapshot } from '../observe/views/gate-snapshot.ts';
import { Admission } from './admission/admission.ts';
import {
  refusedCancelled,
  refusedClosed,
  refusedCost,
  refusedDropped,
  refusedExpired,
  refusedFull,
} from './gate-errors.ts';
import type { Lease } from './leases.ts';
import { Sampler } from './sampler.ts';
import type { BudgetSource, LeaseEnd } from './source.ts';
import { type WaitingRequest, WaitingRoom } from './waiting-room.ts';
import { tooRare } from './why.ts';

/** Origin of a gate's budget: its own source, or member gates, of which it takes one lease each. */
export type Supply = BudgetSource | { readonly members: readonly Admission[] };

export interface GateOptions {
  readonly id: string;
  readonly name: string;
  readonly config: GateConfig;
  readonly source: Supply;
  readonly clock: Clock;
  /** Ready workers; times `maxConcurrency` they give max_SYS if neither the settings nor the source do. */
  readonly ready: () => number;
  /** Called when the snapshot may have changed, up to thousands of times a second. */
  readonly onChange: () => void;
  /** Called with an error thrown by `admitted`, `refused` or `onChange`; other requests are not affected. */
  readonly onThrown?: (error: Error) => void;
}

/** A request for admission. The gate calls `admitted` or `refused` exactly once, possibly before `ask` returns. */
export interface Ask {
  /** In the gate's unit; not used if the gate counts requests. */
  readonly cost: number;
  readonly priority: number;
  readonly deadline: Deadline;
  /** The caller now owns the lease and calls `end` when the request ends. */
  readonly admitted: (lease: Lease) => void;
  /** `gate_refused`, `deadline_exceeded`, `dropped`, `cancelled`, `invalid_input`, or the error given to `close`. */
  readonly refused: (error: ModeletError) => void;
}

export interface PendingAsk {
  /** Refuses the request with `cancelled`. Returns false if it was decided before. */
  cancel(): boolean;
}

export type GateOrder = 'open' | 'close' | 'auto' | 'flush' | 'drop';

export class Gate {
  readonly id: string;
  /** For composites, and for gates with a durable store. */
  readonly admission: Admission;
  readonly #clock: Clock;
  readonly #onChange: () => void;
  readonly #onThrown: (error: Error) => void;
  readonly #room: WaitingRoom<Ask>;
  readonly #decisions = Object.fromEntries(GATE_DECISIONS.map((name) => [name, 0])) as Record<GateDecision, number>;
  #config: GateConfig;
  #source: Supply;
  #sampler: Sampler | null;
  /** The error given to `close`; null while the gate is in use. */
  #closedBy: ModeletError | null = null;
  /** Answers to give once the gate's own state is consistent; `#answerAll` never runs one inside another. */
  #answers: (() => void)[] = [];
  #answering = false;

  /** @throws ModeletError `config_invalid` if the members form a cycle or count another unit. */
  constructor({ id, name, config, source, clock, ready, onChange, onThrown = warn }: GateOptions) {
    this.id = id;
    this.#config = config;
    this.#source = source;
    this.#clock = clock;
    this.#onChange = onChange;
    this.#onThrown = onThrown;
    this.#room = new WaitingRoom(clock, () => this.#go());
    this.admission = new Admission({
      id,
      name,
      rule: config,
      clock,
      ready,
      describe: () => describe(this.#source),
      token: randomBytes(6).toString('hex'),
    });
    this.admission.reconfigure(name, config, membersOf(source));
    this.admission.onRoom(() => this.#go());
    this.admission.onEnded((end, lease) => {
      if (!('members' in this.#source)) this.#source.ended?.(end, lease);
    });
    this.#sampler = this.#sample(source);
  }

  /** Admits or refuses a request now, or lets it wait for room. */
  ask(ask: Ask): PendingAsk {
    const unable = this.#closedBy ?? (isCost(ask.cost) ? null : refusedCost(this.admission, ask.cost));
    if (unable) {
      this.#answers.push(() => ask.refused(unable));
      this.#answerAll();
      return { cancel: () => false };
    }
    const [priority, deadline] = [numberOr(ask.priority, 0), numberOr(ask.deadline, Number.POSITIVE_INFINITY)];
    const place = this.#room.enter(ask, priority, deadline);
    this.#pump(place);
    if (this.#room.size > this.#config.capacity) {
      this.#refuse(place, 'refused_full', () => refusedFull(this.admission, this.#config));
    } else if (this.#config.whenClosed === 'refuse') {
      this.#refuse(place, 'refused_closed', () => refusedClosed(this.admission, this.#config));
    }
    this.#answerAll();
    return { cancel: () => this.#cancel(place) };
  }

  /** Ends a lease. Returns true the first time, false from then on. */
  end(leaseId: string, end: LeaseEnd): boolean {
    return this.admission.end(leaseId, end);
  }

  /**
   * Carries out the order of a message. `open` admits everything, `close` admits nothing, `auto` follows the budget.
   * `flush` admits all waiting requests regardless of the budget; `drop` refuses them with `dropped`.
   */
  control(order: GateOrder): void {
    if (order !== 'flush' && order !== 'drop') {
      this.admission.control(order);
      return;
    }
    this.#sweep();
    for (let place = this.#room.first; place; place = this.#room.first) {
      if (order === 'flush') this.#admit(place, this.admission.seize(place.value.cost), 'admitted_late');
      else this.#refuse(place, 'dropped', () => refusedDropped(this.admission));
    }
    this.#answerAll();
  }

  snapshot(): GateSnapshot {
    const now = this.#clock.now();
    const { oldestAt, size: waiting } = this.#room;
    return {
      ...snapshotOf(this.admission, describe(this.#source), now),
      waiting,
      capacity: this.#config.capacity,
      oldestMs: oldestAt === null ? null : now - oldestAt,
      decisions: { ...this.#decisions },
      store: null,
    };
  }

  /**
   * Applies other settings; waiting requests and leases stay. Keeps a source that is the same object; otherwise closes
   * the old source and starts the new one without a reading.
   * @throws ModeletError `config_invalid` if the members form a cycle or count another unit; then nothing changes.
   */
  reconfigure(config: GateConfig, source: Supply, name: string = this.admission.name): Promise<void> {
    const [oldSource, oldSampler] = [this.#source, this.#sampler];
    // A closed gate never reopens, and the gate must close every source that it is given.
    if (this.#closedBy) return source === oldSource ? Promise.resolve() : close(null, source);
    this.admission.reconfigure(name, config, membersOf(source));
    this.#config = config;
    if (source === oldSource) {
      oldSampler?.setInterval(config.intervalMs);
      return Promise.resolve();
    }
    this.#source = source;
    this.admission.forget();
    this.#sampler = this.#sample(source);
    this.#go();
    return close(oldSampler, oldSource);
  }

  /** Refuses all waiting and later requests with `error`, ends the leases, and closes the source. */
  async close(error: ModeletError): Promise<void> {
    if (this.#closedBy) return;
    this.#closedBy = error;
    for (let place = this.#room.first; place; place = this.#room.first) this.#refuse(place, 'cancelled', () => error);
    this.admission.close();
    this.#answerAll();
    await close(this.#sampler, this.#source);
  }

  #cancel(place: WaitingRequest<Ask>): boolean {
    const was = this.#refuse(place, 'cancelled', () => refusedCancelled(this.admission));
    // The next request may be smaller and fit.
    this.#go();
    return was;
  }

  #go(): void {
    this.#pump(null);
    this.#answerAll();
  }

  /** Admits waiting requests in order while there is room. A request that does not fit blocks those behind it. */
  #pump(asking: WaitingRequest<Ask> | null): void {
    this.#sweep();
    for (let place = this.#room.first; place; place = this.#room.first) {
      const lease = this.admission.take(place.value.cost);
      if (!lease) return;
      this.#admit(place, lease, place === asking ? 'admitted' : 'admitted_late');
    }
  }

  #sweep(): void {
    for (const ask of this.#room.sweep()) {
      const error = refusedExpired(this.admission);
      this.#decide('expired', () => ask.refused(error));
    }
  }

  #admit(place: WaitingRequest<Ask>, lease: Lease, decision: GateDecision): void {
    this.#room.leave(place);
    this.#decide(decision, () => place.value.admitted(lease));
  }

  /** Returns false if the request no longer waits. */
  #refuse(place: WaitingRequest<Ask>, decision: GateDecision, makeError: () => ModeletError): boolean {
    if (!this.#room.leave(place)) return false;
    const error = makeError();
    this.#decide(decision, () => place.value.refused(error));
    return true;
  }

  #decide(decision: GateDecision, answer: () => void): void {
    this.#decisions[decision] += 1;
    this.#answers.push(answer);
  }

  #answerAll(): void {
    if (this.#answering) return;
    this.#answering = true;
    while (this.#answers.length > 0) {
      const answers = this.#answers;
      this.#answers = [];
      for (const answer of answers) this.#call(answer);
    }
    this.#answering = false;
    this.#call(this.#onChange);
  }

  #call(callback: () => void): void {
    try {
      callback();
    } catch (thrown) {
      this.#onThrown(asError(thrown));
    }
  }

  #sample(source: Supply): Sampler | null {
    if ('members' in source) return null;
    const { intervalMs } = this.#config;
    return new Sampler({
      source,
      clock: this.#clock,
      intervalMs,
      onReading: (reading) => this.admission.accept(reading),
    });
  }
}

function membersOf(source: Supply): readonly Admission[] | null {
  return 'members' in source ? source.members : null;
}

function describe(source: Supply): string {
  if (!('members' in source)) return source.description;
  return `the least of ${source.members.map(({ name }) => `"${name}"`).join(', ')}`;
}

async function close(sampler: Sampler | null, source: Supply): Promise<void> {
  await sampler?.close();
  if (!('members' in source)) await source.close();
}

function isCost(cost: number): boolean {
  return Number.isFinite(cost) && cost >= 0;
}

function numberOr(value: number, otherwise: number): number {
  return Number.isNaN(value) ? otherwise : value;
}

function warn(error: Error): void {
  process.emitWarning(error);
}

/** The gate's snapshot without the fields that depend on its waiting room or store. */
type AdmissionSnapshot = Omit<GateSnapshot, 'waiting' | 'capacity' | 'oldestMs' | 'decisions' | 'store'>;

/** A composite shows the numbers of the member that limits it. */
function snapshotOf(admission: Admission, description: string, now: number): AdmissionSnapshot {
  const tightest = admission.tightest();
  const { open, budget, quota, maxSys, room } = tightest.state();
  const { known, lastSampleAt } = tightest.knowledge;
  const { lastRefusal } = admission.knowledge;
  return {
    id: admission.id,
    name: admission.name,
    control: admission.controlled,
    open,
    why: admission.why(),
    unit: admission.rule.unit,
    budget,
    baseline: tightest.rule.baseline,
    quota,
    maxSys,
    room: Number.isFinite(room) ? room : null,
    source: {
      description,
      available: known.tag === 'sampled',
      error: known.tag === 'unreadable' ? known.reason : null,
      raw: known.tag === 'sampled' ? (known.sample.raw ?? null) : null,
      rare: rarityOf(tightest),
      ageMs: lastSampleAt === null ? null : now - lastSampleAt,
    },
    inFlight: admission.inFlight,
    inFlightCost: admission.inFlightCost,
    lastRefusal: lastRefusal && { agoMs: now - lastRefusal.at, retryAfterMs: lastRefusal.retryAfterMs },
    lost: admission.lost,
  };
}

/** Returns a warning if samples go stale before the next is measured: such a gate opens and closes in turns. */
function rarityOf({ knowledge, rule }: Admission): string | null {
  const { known } = knowledge;
  const everyMs = known.tag === 'sampled' ? known.sample.everyMs : undefined;
  return everyMs !== undefined && everyMs >= rule.staleMs ? tooRare(everyMs, rule.staleMs) : null;
}
