/** The sources without a server: constant, this runtime's saturation, context; and what is no source at all. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileGate } from '../../../src/config/compile-gate.ts';
import type { StageLoad } from '../../../src/core/model.ts';
import type { BudgetSource, SourceServices } from '../../../src/gate/source.ts';
import { createSource } from '../../../src/gate/sources/create.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { reasonFrom, SERVICES, sampleFrom } from '../../fixtures/sources.ts';

const clock = new FakeClock();

function create(raw: object, services: Partial<SourceServices> = {}): BudgetSource {
  return createSource(compileGate(raw as Record<string, unknown>), { ...SERVICES, clock, ...services });
}

describe('a constant budget', () => {
  test('is new at every reading, and limits all requests in flight', async () => {
    const source = create({ source: 'constant', budget: 0.7 });
    clock.advance(5000);
    assert.deepEqual(await sampleFrom(source), { budget: 0.7, at: clock.now(), fixed: true, raw: 'budget 0.7' });
  });
});

describe("this runtime's own saturation", () => {
  const load = (queue: number, busy: number, ready: number): StageLoad => ({ queue, busy, ready, at: 40 });
  const saturation = (readLoad: () => StageLoad | null, gate: object = {}): BudgetSource =>
    create({ source: 'saturation', maxConcurrency: 10, ...gate }, { readLoad });

  test('is the share that workers and queues hold of ready workers x maxConcurrency', async () => {
    assert.deepEqual(await sampleFrom(saturation(() => load(3, 12, 2))), {
      budget: 0.25,
      at: 40,
      lagMs: 250,
      maxSys: 20,
      raw: 'saturation 0.75: 12 held and 3 queued of 20',
    });
  });

  test('is the share of max_SYS if that is set', async () => {
    const { budget, maxSys } = await sampleFrom(saturation(() => load(0, 5, 1), { maxSys: '40' }));
    assert.deepEqual({ budget, maxSys }, { budget: 0.875, maxSys: 40 });
  });

  test('may be above 1 if the queue holds more than the capacity', async () => {
    assert.equal((await sampleFrom(saturation(() => load(30, 10, 2)))).budget, -1);
  });

  test('is missing without a ready worker, without capacity, and before the stage is known', async () => {
    assert.match(await reasonFrom(saturation(() => load(0, 0, 0))), /no worker that is ready/);
    assert.match(await reasonFrom(saturation(() => load(0, 0, 3), { maxSys: '0' })), /max_SYS is 0/);
    assert.match(await reasonFrom(saturation(() => null)), /nothing is known of the stage/);
  });

  test('reports when the load has changed', () => {
    let told = 0;
    let change = (): void => {};
    const watchLoad = (changed: () => void): (() => void) => {
      change = changed;
      return () => {
        change = () => {};
      };
    };
    const stop = create({ source: 'saturation' }, { watchLoad }).watch?.(() => {
      told += 1;
    });
    change();
    stop?.();
    change();
    assert.equal(told, 1);
  });
});

describe('a context value', () => {
  const context = (found: unknown, gate: object = {}): BudgetSource =>
    create({ source: 'context', key: 'load', ...gate }, { readContext: () => found });

  test('is a saturation or a budget, as the gate is set', async () => {
    const saturation = await sampleFrom(context(0.25, { value: 'saturation' }));
    const budget = await sampleFrom(context(Promise.resolve(0.25), { value: 'budget' }));
    assert.deepEqual([saturation.budget, budget.budget], [0.75, 0.25]);
    assert.deepEqual([saturation.raw, budget.raw], ['saturation 0.25', 'budget 0.25']);
    assert.equal(saturation.at, clock.now());
    assert.equal(clock.pending, 0, 'no timer is left');
  });

  test('comes from the context and key that the gate names', async () => {
    const asked: unknown[] = [];
    const readContext = (...names: unknown[]): number => {
      asked.push(...names);
      return 0;
    };
    await sampleFrom(create({ source: 'context', context: 'flow', key: 'pool.load' }, { readContext }));
    assert.deepEqual(asked, ['flow', 'pool.load']);
  });

  for (const [found, reason] of [
    [undefined, /^global\.load is not set$/],
    [null, /is not set/],
    ['0.4', /is not a number: its type is string/],
    [{ value: 0.4 }, /its type is object/],
    [Number.NaN, /the number read is NaN/],
    [Number.POSITIVE_INFINITY, /the number read is Infinity/],
    [-0.5, /a saturation is not negative/],
  ] as const) {
    test(`gives no sample if it is ${String(found)}`, async () => {
      assert.match(await reasonFrom(context(found)), reason);
    });
  }

  test('gives no sample if its store fails', async () => {
    const failing = (): never => {
      throw new Error('the store is gone');
    };
    assert.equal(
      await reasonFrom(create({ source: 'context', key: 'x' }, { readContext: failing })),
      'the store is gone',
    );
  });

  test('is not a budget above 1, because a percentage would keep the gate open', async () => {
    assert.match(await reasonFrom(context(42, { value: 'budget' })), /budget 42: a budget is a share of the capacity/);
    assert.equal((await sampleFrom(context(1 + 1e-12, { value: 'budget' }))).raw, 'budget 1');
  });

  test('gives no sample if its store does not answer', async () => {
    const reason = reasonFrom(context(new Promise(() => {})));
    clock.advance(2000);
    assert.match(await reason, /no answer within 2000 ms/);
    assert.equal(clock.pending, 0);
  });

  test('is not read to its end when the gate no longer wants it', async () => {
    const asked = new AbortController();
    const reading = context(new Promise(() => {})).read(asked.signal);
    asked.abort();
    assert.deepEqual(await reading, { ok: false, reason: 'the reading was cancelled' });
    assert.deepEqual(await context(0.5).read(asked.signal), { ok: false, reason: 'the reading was cancelled' });
  });
});

describe('a source that cannot be used', () => {
  test('a composite has no source, because it asks its members', () => {
    assert.throws(() => create({ source: 'composite', members: '["a"]' }), {
      code: 'config_invalid',
      message: /asks its members/,
    });
  });

  test('a selected TLS configuration must exist', () => {
    const gate = { source: 'prometheus', url: 'https://127.0.0.1', query: 'up', tls: 'gone' };
    assert.throws(() => create(gate), { code: 'config_invalid', message: /TLS configuration node is missing/ });
  });
});
