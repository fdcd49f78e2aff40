/** A gate whose source says what a test tells it to, on a clock that the test moves. */
import { setImmediate } from 'node:timers/promises';
import { compileGate, type GateConfig } from '../../src/config/compile-gate.ts';
import type { ModeletError } from '../../src/core/errors.ts';
import { type Ask, Gate, type PendingAsk } from '../../src/gate/gate.ts';
import type { Lease } from '../../src/gate/leases.ts';
import type { BudgetSource, EndedLease, LeaseEnd, Reading, Sample } from '../../src/gate/source.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

/** Settings that a test names, on those of a gate with room for 10 requests and nothing kept free. */
export function settings(change: Record<string, unknown> = {}): GateConfig {
  const plain = { name: 'batch', maxSys: '10', baseline: '0', lagMs: '1000', intervalMs: '1000', staleMs: '5000' };
  return compileGate({ source: 'constant', ...plain, ...change });
}

/** Answers a reading when the test says what. */
export class ToldSource implements BudgetSource {
  readonly description = 'the test';
  readonly ends: LeaseEnd[] = [];
  readonly signals: AbortSignal[] = [];
  #answer: ((reading: Reading) => void) | null = null;
  changed: () => void = () => {};
  closed = 0;

  read(signal: AbortSignal): Promise<Reading> {
    this.signals.push(signal);
    return new Promise((resolve) => {
      this.#answer = resolve;
      signal.addEventListener('abort', () => resolve({ ok: false, reason: 'given up' }));
    });
  }

  /** A reading is in progress. */
  get asked(): boolean {
    return this.#answer !== null;
  }

  async answer(reading: Reading): Promise<void> {
    const answer = this.#answer;
    this.#answer = null;
    answer?.(reading);
    await setImmediate();
  }

  ended(end: LeaseEnd, _lease: EndedLease): void {
    this.ends.push(end);
  }

  watch(changed: () => void): () => void {
    this.changed = changed;
    return () => {
      this.changed = () => {};
    };
  }

  close(): Promise<void> {
    this.closed += 1;
    return Promise.resolve();
  }
}

/** The fate of one request. */
export interface Asking {
  readonly asked: PendingAsk;
  readonly leases: Lease[];
  readonly errors: ModeletError[];
}

export class Bed {
  readonly clock: FakeClock = new FakeClock();
  readonly source: ToldSource = new ToldSource();
  readonly thrown: Error[] = [];
  readonly gate: Gate;
  changes = 0;

  constructor(change: Record<string, unknown> = {}, ready = 0) {
    this.gate = new Gate({
      id: 'g1',
      name: 'batch',
      config: settings(change),
      source: this.source,
      clock: this.clock,
      ready: () => ready,
      onThrown: (error) => this.thrown.push(error),
      onChange: () => {
        this.changes += 1;
      },
    });
  }

  /** Makes the source say it now, past whatever it is asked. */
  sample(budget: number, change: Partial<Sample> = {}): void {
    this.gate.admission.accept({ ok: true, sample: { budget, at: this.clock.now(), ...change } });
  }

  ask(change: Partial<Ask> = {}): Asking {
    const leases: Lease[] = [];
    const errors: ModeletError[] = [];
    const asked = this.gate.ask({
      cost: 1,
      priority: 0,
      deadline: Number.POSITIVE_INFINITY,
      admitted: (lease) => leases.push(lease),
      refused: (error) => errors.push(error),
      ...change,
    });
    return { asked, leases, errors };
  }

  asks(count: number): Asking[] {
    return Array.from({ length: count }, () => this.ask());
  }

  get why(): string {
    return this.gate.snapshot().why;
  }
}

/** How many of them are through. */
export function admittedOf(askings: readonly Asking[]): number {
  return askings.filter(({ leases }) => leases.length > 0).length;
}

export function endOf({ leases }: Asking): string {
  const [lease] = leases;
  if (!lease) throw new Error('it was not admitted');
  return lease.id;
}
