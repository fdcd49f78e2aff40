/** A gate keeps its promises at every instant, for any events in any order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { GateConfig } from '../../src/config/compile-gate.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { Gate, type GateOrder } from '../../src/gate/gate.ts';
import type { EndedLease, LeaseEnd, Sample } from '../../src/gate/source.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { Oracle, type Waiting } from './oracle.ts';
import { settings, ToldSource } from './stand-in.ts';

type Step =
  | { readonly do: 'ask'; readonly cost: number; readonly priority: number; readonly inMs: number }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'end'; readonly which: number; readonly end: LeaseEnd }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'read'; readonly percent: number; readonly ageMs: number; readonly fixed: boolean }
  | { readonly do: 'fail' }
  | { readonly do: 'control'; readonly order: GateOrder }
  | { readonly do: 'deploy'; readonly config: GateConfig };

const config = fc
  .record({
    unit: fc.constantFrom('requests', 'bytes'),
    maxSys: fc.integer({ min: 1, max: 40 }).map(String),
    baseline: fc.integer({ min: 0, max: 60 }).map((percent) => String(percent / 100)),
    lagMs: fc.constantFrom('0', '100', '1000'),
    staleMs: fc.constantFrom('100', '1000', '5000'),
    leaseMs: fc.constantFrom('100', '500', '3000'),
    capacity: fc.integer({ min: 1, max: 20 }).map(String),
    whenClosed: fc.constantFrom('wait', 'wait', 'wait', 'refuse'),
  })
  .map(settings);
const end: fc.Arbitrary<LeaseEnd> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<LeaseEnd>({ kind: 'done' }, { kind: 'failed' }, { kind: 'cancelled' }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(0, 0, 150, 700).map((retryAfterMs): LeaseEnd => ({ kind: 'refused', retryAfterMs })),
  },
);
const ask = fc.record({
  do: fc.constant('ask' as const),
  cost: fc.integer({ min: 0, max: 30 }),
  priority: fc.constantFrom(0, 0, 0, 1, -1),
  inMs: fc.constantFrom(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 300, 50, 0),
});
const read = fc.record({
  do: fc.constant('read' as const),
  percent: fc.integer({ min: 0, max: 100 }),
  ageMs: fc.constantFrom(0, 0, 0, 20, 200, 2000),
  fixed: fc.constantFrom(false, false, false, true),
});
const which = fc.nat({ max: 200 });
const step = (deploys: boolean): fc.Arbitrary<Step> =>
  fc.oneof(
    { weight: 8, arbitrary: ask },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('end' as const), which, end }) },
    { weight: 4, arbitrary: read },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(0, 1, 20, 90, 400) }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), which }) },
    { weight: 1, arbitrary: fc.constant<Step>({ do: 'fail' }) },
    ...(deploys
      ? [
          { weight: 1, arbitrary: config.map((of): Step => ({ do: 'deploy', config: of })) },
          {
            weight: 1,
            arbitrary: fc.constantFrom<Step>({ do: 'control', order: 'flush' }, { do: 'control', order: 'drop' }),
          },
        ]
      : []),
  );

class Run {
  readonly #clock = new FakeClock();
  readonly #source = new ToldSource();
  readonly #oracle: Oracle;
  readonly #gate: Gate;
  readonly #leases: string[] = [];
  readonly #cancels: (() => boolean)[] = [];
  readonly #unit: GateConfig['unit'];

  constructor(initial: GateConfig) {
    this.#oracle = new Oracle(initial, () => this.#clock.now());
    this.#unit = initial.unit;
    this.#source.ended = (how: LeaseEnd, lease: EndedLease) =>
      this.#oracle.ended(how, (lease as unknown as { id: string }).id);
    this.#gate = new Gate({
      id: 'g1',
      name: 'batch',
      config: initial,
      source: this.#source,
      clock: this.#clock,
      ready: () => 0,
      onChange: () => {},
      onThrown: (error) => {
        throw error;
      },
    });
  }

  step(what: Step): void {
    this.#do(what);
    this.#clock.advance(0);
    this.#oracle.settled();
    const { waiting, inFlight } = this.#gate.snapshot();
    assert.deepEqual([waiting, inFlight], [this.#oracle.waiting, this.#oracle.held.size]);
  }

  /** Everything comes to its end, once. */
  async close(): Promise<void> {
    await this.#gate.close(new ModeletError('shutting_down', 'the test is over'));
    for (const { told } of this.#oracle.asked) assert.equal(told.length, 1);
    assert.equal(this.#oracle.ends, this.#leases.length);
    for (const id of this.#leases) assert.equal(this.#gate.end(id, { kind: 'done' }), false);
    assert.equal(this.#clock.pending, 0);
  }

  #do(what: Step): void {
    if (what.do === 'ask') this.#ask(what);
    else if (what.do === 'cancel') this.#cancels[what.which % Math.max(1, this.#cancels.length)]?.();
    else if (what.do === 'end') this.#end(what.which, what.end);
    else if (what.do === 'advance') this.#clock.advance(what.ms);
    else if (what.do === 'read') this.#read(what);
    else if (what.do === 'control') this.#oracle.flush(() => this.#gate.control(what.order));
    else if (what.do === 'deploy') this.#deploy({ ...what.config, unit: this.#unit });
    else {
      this.#oracle.read(null);
      this.#gate.admission.accept({ ok: false, reason: 'unplugged' });
    }
  }

  /** The unit stays: costs in flight are in the old one. */
  #deploy(to: GateConfig): void {
    this.#oracle.reconfigured(to);
    void this.#gate.reconfigure(to, this.#source);
  }

  #ask({ cost, priority, inMs }: Extract<Step, { do: 'ask' }>): void {
    const number = this.#oracle.asked.length;
    const who: Waiting = { number, cost, priority, deadline: this.#clock.now() + inMs, told: [] };
    this.#oracle.asks(who);
    const { cancel } = this.#gate.ask({
      cost,
      priority,
      deadline: who.deadline,
      admitted: (lease) => {
        assert.equal(lease.cost, this.#unit === 'requests' ? 1 : cost);
        this.#leases.push(lease.id);
        this.#oracle.admitted(who, lease);
      },
      refused: (error) => this.#oracle.refused(who, error),
    });
    this.#cancels.push(cancel);
  }

  /** Also an ended one: then it has no effect. */
  #end(index: number, how: LeaseEnd): void {
    const id = this.#leases[index % Math.max(1, this.#leases.length)];
    if (id === undefined) return;
    const held = this.#oracle.held.has(id);
    assert.equal(this.#gate.end(id, how), held);
  }

  #read({ percent, ageMs, fixed }: Extract<Step, { do: 'read' }>): void {
    const at = this.#clock.now() - ageMs;
    const sample: Sample = { budget: percent / 100, at, ...(fixed && { fixed }) };
    this.#oracle.read(sample);
    this.#gate.admission.accept({ ok: true, sample });
  }
}

async function holds(deploys: boolean): Promise<void> {
  await fc.assert(
    fc.asyncProperty(config, fc.array(step(deploys), { maxLength: 120, size: 'max' }), async (initial, steps) => {
      const run = new Run(initial);
      for (const each of steps) run.step(each);
      await run.close();
    }),
    { numRuns: 400 },
  );
}

test('requests in flight stay within N and the ceiling, in order, on fresh samples; each ends and is answered once', () =>
  holds(false));

test('the same holds while settings change and messages flush and drop', () => holds(true));
