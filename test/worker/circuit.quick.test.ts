/** The circuit over any sequence of deaths, proofs and time, beside a plain model of the rules. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { CircuitTag } from '../../src/core/model.ts';
import { CIRCUIT, CIRCUIT_TRANSITIONS, Circuit, type ProvenStep } from '../../src/runtime/engine/pools/circuit.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

type Action =
  | { readonly do: 'die'; readonly missed: ProvenStep }
  | { readonly do: 'prove'; readonly step: ProvenStep }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'reset' };

const anyStep = fc.constantFrom<ProvenStep>('ready', 'answer');
const death = fc.record({ do: fc.constant('die' as const), missed: anyStep });
const anyAction: fc.Arbitrary<Action> = fc.oneof(
  { arbitrary: death, weight: 8 },
  { arbitrary: fc.record({ do: fc.constant('prove' as const), step: anyStep }), weight: 2 },
  { arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 40_000 }) }), weight: 5 },
  { arbitrary: fc.constant({ do: 'reset' as const }), weight: 1 },
);

class Rig {
  readonly clock: FakeClock = new FakeClock();
  readonly entered: CircuitTag[] = [];
  readonly circuit: Circuit;

  constructor(random: () => number = () => 1) {
    this.circuit = new Circuit(this.clock, (tag) => this.entered.push(tag), random);
  }

  die(times = 1, missed: ProvenStep = 'answer'): void {
    for (let time = 0; time < times; time += 1) this.circuit.died(new Error(`death ${time + 1}`), missed);
  }

  /** Milliseconds until the next try. */
  get pause(): number {
    assert.ok(this.circuit.status.retryAt !== null);
    return this.circuit.status.retryAt - this.clock.now();
  }
}

/** The rules again, as plainly as can be. */
class Model {
  tag: CircuitTag = 'closed';
  #deaths: { at: number; missed: ProvenStep }[] = [];
  #times = 0;
  #proof: ProvenStep = 'ready';

  step(action: Action, now: number): void {
    if (action.do === 'reset') this.#close();
    if (action.do === 'prove' && this.tag === 'half-open' && (action.step === 'answer' || this.#proof === 'ready')) {
      this.#close();
    }
    if (action.do !== 'die' || this.tag === 'open') return;
    this.#deaths.push({ at: now, missed: action.missed });
    const recent = this.#deaths.filter(({ at }) => now - at < CIRCUIT.withinMs);
    if (this.tag === 'closed' && recent.length < CIRCUIT.deaths) return;
    if (this.tag === 'closed') this.#proof = recent.some(({ missed }) => missed === 'answer') ? 'answer' : 'ready';
    else if (action.missed === 'answer') this.#proof = 'answer';
    this.tag = 'open';
    this.#times += 1;
  }

  get longestPause(): number {
    return Math.min(CIRCUIT.longestMs, CIRCUIT.firstMs * 2 ** (this.#times - 1));
  }

  #close(): void {
    this.tag = 'closed';
    this.#deaths = [];
    this.#times = 0;
  }
}

test('the circuit follows its rules under any events and makes only allowed transitions', () => {
  const anyWorld = fc.tuple(
    fc.array(anyAction, { maxLength: 120, size: 'max' }),
    fc.double({ min: 0, max: 1, noNaN: true }),
  );
  fc.assert(
    fc.property(anyWorld, ([actions, random]) => {
      const rig = new Rig(() => random);
      const model = new Model();
      for (const action of actions) {
        const due = rig.circuit.status.retryAt;
        if (action.do === 'die') rig.die(1, action.missed);
        else if (action.do === 'prove') rig.circuit.proved(action.step);
        else if (action.do === 'reset') rig.circuit.reset();
        else rig.clock.advance(action.ms);
        const wasOpen = model.tag === 'open';
        model.step(action, rig.clock.now());
        if (model.tag === 'open' && due !== null && rig.clock.now() >= due) model.tag = 'half-open';
        assert.equal(rig.circuit.tag, model.tag);
        assert.equal(rig.clock.pending, model.tag === 'open' ? 1 : 0, 'one timer while it is open, none else');
        assert.equal(rig.circuit.refusal === null, model.tag === 'closed');
        if (model.tag === 'open' && !wasOpen) {
          assert.ok(rig.pause >= model.longestPause * 0.75 && rig.pause <= model.longestPause, `pause ${rig.pause}`);
        }
      }
      const path = ['closed' as const, ...rig.entered];
      for (const [index, tag] of rig.entered.entries()) {
        assert.ok(CIRCUIT_TRANSITIONS[path[index] as CircuitTag].includes(tag), path.join(' -> '));
      }
    }),
    { numRuns: 500 },
  );
});

describe('the circuit', () => {
  test('opens at the fifth death within a minute, not at five deaths over a longer time', () => {
    const slow = new Rig();
    for (let n = 0; n < 50; n += 1) {
      slow.die();
      slow.clock.advance(CIRCUIT.withinMs / 4);
    }
    assert.equal(slow.circuit.tag, 'closed');
    const fast = new Rig();
    for (let n = 0; n < 5; n += 1) {
      assert.equal(fast.circuit.tag, 'closed');
      fast.die();
      fast.clock.advance(CIRCUIT.withinMs / 4 - 2000);
    }
    assert.deepEqual(fast.entered, ['open', 'half-open']);
  });

  test('reports the number of deaths, the last cause and the time to retry after', () => {
    const rig = new Rig();
    rig.die(5);
    const { code, message, retryAfterSeconds, cause } = rig.circuit.refusal ?? {};
    assert.equal(code, 'stage_unavailable');
    assert.equal(message, 'its workers died 5 times in a short time, next try in 1 s; the last one: death 5');
    assert.equal(retryAfterSeconds, 1);
    assert.equal((cause as Error).message, 'death 5');
    rig.clock.advance(1000);
    rig.die();
    rig.clock.advance(2000);
    rig.die();
    rig.clock.advance(500);
    assert.equal(rig.circuit.refusal?.retryAfterSeconds, 4);
    assert.match(rig.circuit.refusal?.message ?? '', /died 7 times .* next try in 4 s/);
  });

  test('doubles its pause after each probe that dies, up to half a minute, and resets it after an answer', () => {
    const rig = new Rig();
    rig.die(5);
    const pauses: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      pauses.push(rig.pause);
      rig.clock.advance(rig.pause);
      assert.equal(rig.circuit.tag, 'half-open');
      rig.die();
    }
    assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    rig.clock.advance(rig.pause);
    rig.circuit.proved('answer');
    assert.equal(rig.circuit.tag, 'closed');
    rig.die(4);
    assert.equal(rig.circuit.tag, 'closed', 'the deaths before are forgotten');
    rig.die();
    assert.equal(rig.pause, 1000);
  });

  test('closes by an answer after deaths in service, and by a start after failed starts only', () => {
    const served = new Rig();
    served.die(4, 'ready');
    served.die(1, 'answer');
    served.clock.advance(1000);
    served.circuit.proved('ready');
    assert.equal(served.circuit.tag, 'half-open');
    served.circuit.proved('answer');
    assert.equal(served.circuit.tag, 'closed');
    const started = new Rig();
    started.die(5, 'ready');
    started.clock.advance(1000);
    started.circuit.proved('ready');
    assert.equal(started.circuit.tag, 'closed');
  });

  test('does nothing by itself after stop', () => {
    const rig = new Rig();
    rig.die(5);
    rig.circuit.stop();
    assert.equal(rig.clock.pending, 0);
  });
});
