/** Random work on a queue, and a model that says what may come of it: who holds what, and what has ended how. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Claim, QueueLimits, WorkQueue } from '../../src/gate/store/work-queue.ts';
import { item, type TestTime } from './bed.ts';

interface Tried {
  readonly queue: WorkQueue;
  readonly time: TestTime;
}

const IDS = ['a', 'b', 'c', 'd', 'e', 'f'];
const LEASE_MS = 100;

export const RANDOM_LIMITS: QueueLimits = { capacity: 4, maxAttempts: 3, resultTtlMs: 1000 };

type Step =
  | { readonly do: 'enqueue'; readonly ids: readonly string[]; readonly priority: number }
  | { readonly do: 'claim'; readonly max: number }
  | { readonly do: 'ack' | 'dead' | 'extend'; readonly which: number }
  | {
      readonly do: 'nack';
      readonly which: number;
      readonly delayMs: number;
      readonly counts: boolean;
      readonly alone: boolean;
    }
  | { readonly do: 'cancel'; readonly id: string }
  | { readonly do: 'redrive' }
  | { readonly do: 'wait'; readonly ms: number };

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant('enqueue' as const), ids: fc.subarray(IDS), priority: fc.integer({ min: 0, max: 1 }) }),
    fc.record({ do: fc.constant('claim' as const), max: fc.integer({ min: 0, max: 3 }) }),
    fc.record({ do: fc.constantFrom('ack' as const, 'dead' as const, 'extend' as const), which: fc.nat(9) }),
    fc.record({
      do: fc.constant('nack' as const),
      which: fc.nat(9),
      delayMs: fc.constantFrom(0, 50),
      counts: fc.boolean(),
      alone: fc.boolean(),
    }),
    fc.record({ do: fc.constant('cancel' as const), id: fc.constantFrom(...IDS) }),
    fc.record({ do: fc.constant('redrive' as const) }),
    fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(10, 60, 100, 1000) }),
  ),
  { minLength: 20, maxLength: 60, size: 'max' },
);

interface Known {
  state: 'waiting' | 'leased' | 'dead' | 'ended';
  priority: number;
  attempts: number;
  alone: boolean;
  token: string;
  /** When it can be claimed, or its lease or its outcome ends. */
  until: number;
  seq: number;
}

class Model {
  readonly known: Map<string, Known> = new Map();
  #seq = 0;
  readonly #time: TestTime;

  constructor(time: TestTime) {
    this.#time = time;
  }

  /** The changes that time alone causes. */
  moveOn(): void {
    const now = this.#time.now();
    for (const [id, known] of this.known) {
      if (known.until > now) continue;
      if (known.state === 'ended') this.known.delete(id);
      if (known.state !== 'leased') continue;
      this.back(known, { counts: true, alone: true, delayMs: 0 });
      known.token = '';
    }
  }

  back(known: Known, { counts, alone, delayMs }: { counts: boolean; alone: boolean; delayMs: number }): void {
    known.attempts += counts ? 1 : 0;
    known.alone ||= alone;
    known.until = this.#time.now() + delayMs;
    known.state = known.attempts >= RANDOM_LIMITS.maxAttempts ? 'dead' : 'waiting';
  }

  end(known: Known, token: string): void {
    Object.assign(known, { state: 'ended', token, until: this.#time.now() + RANDOM_LIMITS.resultTtlMs });
  }

  add(id: string, priority: number): void {
    this.#seq += 1;
    const until = this.#time.now();
    this.known.set(id, { state: 'waiting', priority, attempts: 0, alone: false, token: '', until, seq: this.#seq });
  }

  count(state: Known['state']): number {
    return [...this.known.values()].filter((known) => known.state === state).length;
  }

  /** Ids that a claim of so many must give, in order. */
  due(max: number): string[] {
    const now = this.#time.now();
    const all = [...this.known];
    const leased = all.filter(([, { state }]) => state === 'leased');
    const ready = all.filter(([, { state, until }]) => state === 'waiting' && until <= now);
    if (leased.some(([, { alone }]) => alone)) return [];
    const suspects = ready.filter(([, { alone }]) => alone);
    suspects.sort(([, a], [, b]) => a.attempts - b.attempts || a.seq - b.seq);
    if (suspects.length > 0) return (leased.length > 0 ? [] : suspects.slice(0, Math.min(1, max))).map(([id]) => id);
    ready.sort(([, a], [, b]) => b.priority - a.priority || a.seq - b.seq);
    return ready.slice(0, max).map(([id]) => id);
  }
}

/** Takes the steps with the queue and with the model, and compares what they say. */
class Walk {
  readonly #queue: WorkQueue;
  readonly #time: TestTime;
  readonly #model: Model;
  /** All claims there ever were: the late ones are the point. */
  readonly #claims: Claim[] = [];
  #tokens = 0;

  constructor({ queue, time }: Tried) {
    this.#queue = queue;
    this.#time = time;
    this.#model = new Model(time);
  }

  async take(step: Step): Promise<void> {
    this.#model.moveOn();
    const { known } = this.#model;
    switch (step.do) {
      case 'enqueue': {
        const expected = step.ids.map((id) => {
          if (known.has(id)) return 'duplicate';
          if (this.#model.count('waiting') >= RANDOM_LIMITS.capacity) return 'full';
          this.#model.add(id, step.priority);
          return 'new';
        });
        const { priority } = step;
        assert.deepEqual(await this.#queue.enqueue(step.ids.map((id) => item(id, { priority }))), expected);
        return;
      }
      case 'claim':
        await this.#claim(step.max);
        return;
      case 'cancel': {
        const found = known.get(step.id);
        const gone = !found || found.state === 'ended';
        const expected = gone ? 'unknown' : found.state === 'leased' ? 'running' : 'cancelled';
        if (found && expected === 'cancelled') this.#model.end(found, '');
        assert.equal(await this.#queue.cancel(step.id), expected);
        return;
      }
      case 'redrive': {
        const dead = [...known.values()].filter(({ state }) => state === 'dead');
        for (const letter of dead) Object.assign(letter, { state: 'waiting', attempts: 0, until: this.#time.now() });
        assert.equal(await this.#queue.redrive(null), dead.length);
        return;
      }
      case 'wait':
        this.#time.advance(step.ms);
        return;
      default:
        await this.#settle(step);
    }
  }

  async compare(): Promise<void> {
    this.#model.moveOn();
    const { ready, delayed, leased, dead } = await this.#queue.stats();
    const counts = [this.#model.count('waiting'), this.#model.count('leased'), this.#model.count('dead')];
    assert.deepEqual([ready + delayed, leased, dead], counts);
    for (const id of IDS) {
      const known = this.#model.known.get(id);
      const states = { waiting: ['pending'], leased: ['running'], dead: ['dead'], ended: ['done', 'failed'] };
      const result = await this.#queue.result(id);
      if (!known) assert.equal(result, null);
      else
        assert.ok(states[known.state].includes(result?.state ?? ''), `${id} is ${known.state}, not ${result?.state}`);
    }
  }

  async #claim(max: number): Promise<void> {
    const expected = this.#model.due(max);
    this.#tokens += 1;
    const claims = await this.#queue.claim({ max, leaseMs: LEASE_MS, token: `t${this.#tokens}` });
    assert.deepEqual(
      claims.map(({ id }) => id),
      expected,
    );
    for (const claim of claims) {
      const known = this.#model.known.get(claim.id) as Known;
      assert.deepEqual([claim.attempt, claim.alone], [known.attempts + 1, known.alone]);
      Object.assign(known, { state: 'leased', token: claim.token, until: this.#time.now() + LEASE_MS });
      this.#claims.push(claim);
    }
  }

  async #settle(step: Extract<Step, { which: number }>): Promise<void> {
    const held = this.#claims[this.#claims.length - 1 - step.which];
    if (!held) return;
    const known = this.#model.known.get(held.id);
    const same = known?.token === held.token;
    const holds = same && known.state === 'leased';
    if (step.do === 'extend') {
      if (holds) known.until = this.#time.now() + LEASE_MS;
      assert.deepEqual(await this.#queue.extend([held], LEASE_MS), [holds]);
    } else if (step.do === 'ack') {
      const before = same && known.state === 'ended';
      if (holds) this.#model.end(known, held.token);
      assert.deepEqual(await this.#queue.ack([{ ...held, ok: true, result: null }]), [holds || before]);
    } else if (step.do === 'dead') {
      const before = same && known.state === 'dead';
      if (holds) known.state = 'dead';
      assert.deepEqual(await this.#queue.deadLetter([held], 'no'), [holds || before]);
    } else if (step.do === 'nack') {
      if (holds) this.#model.back(known, step);
      const found = same && known.state !== 'ended' ? (known.state === 'dead' ? 'dead' : 'again') : 'lost';
      const { delayMs, counts: countAttempt, alone } = step;
      assert.deepEqual(await this.#queue.nack([held], { delayMs, reason: 'again', countAttempt, alone }), [found]);
    }
  }
}

export async function testRandomWork(make: () => Promise<Tried>, runs: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(steps, async (taken) => {
      const tried = await make();
      const walk = new Walk(tried);
      try {
        for (const step of taken) {
          await walk.take(step);
          await walk.compare();
        }
      } finally {
        await tried.queue.close();
      }
    }),
    { numRuns: runs },
  );
}
