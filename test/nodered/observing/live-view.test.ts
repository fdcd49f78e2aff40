/** The live view of the sidebar measures the runtimes when an editor asks for it, and shares what is fresh. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { FRESH_MS, LiveView, LOOKED_BACK_MS } from '../../../src/node-red/admin/live-view.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { serve } from '../../fixtures/service.ts';

interface Bed {
  readonly clock: FakeClock;
  readonly live: LiveView;
  /** Number of times that the runtimes have been measured. */
  looks(): number;
}

/** Sees a runtime that, by the fake clock, ends ten requests a second. */
async function bed(t: TestContext): Promise<Bed> {
  const real = await serve(t, { stages: [{ id: 'sleep', file: 'sleep' }] });
  const clock = new FakeClock();
  let looks = 0;
  const live = new LiveView({
    clock,
    measure: () => {
      looks += 1;
      const { snapshot, ...rest } = real.service.measure();
      return [{ ...rest, at: clock.now(), snapshot: { ...snapshot, requests: { ok: clock.now() / 100 } } }];
    },
    around: () => ({
      endpoints: [],
      chains: [],
      gates: [],
      unusable: [],
      loop: null,
      allowedCpus: [0],
      serverCpus: null,
      engineCpus: () => null,
    }),
  });
  return { clock, live, looks: () => looks };
}

describe('the live view', () => {
  test('measures nothing by itself', async (t) => {
    const { clock, live, looks } = await bed(t);
    live.now();
    clock.advance(60_000);
    assert.deepEqual([looks(), clock.pending], [1, 0]);
  });

  test('is measured once for all editors that ask within a short time', async (t) => {
    const { clock, live, looks } = await bed(t);
    const view = live.now();
    clock.advance(FRESH_MS - 1);
    assert.equal(live.now(), view);
    clock.advance(1);
    assert.notEqual(live.now(), view);
    assert.equal(looks(), 2);
  });

  test('has rates from the second request on, over the last seconds', async (t) => {
    const { clock, live } = await bed(t);
    const rate = (): number | null | undefined => live.now().runtimes[0]?.requestsPerSecond;
    const rates = [0, 1000, 1000, 1000, 1000, 1000, 1000].map((ms) => {
      clock.advance(ms);
      return rate();
    });
    assert.deepEqual(rates, [null, 10, 10, 10, 10, 10, 10]);
  });

  test('has no rates after a time without a question', async (t) => {
    const { clock, live } = await bed(t);
    live.now();
    clock.advance(LOOKED_BACK_MS + 1);
    assert.equal(live.now().runtimes[0]?.requestsPerSecond, null);
  });
});
