/** Many senders and an old metric: what the gates of others overshoot by, and this one never. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gated, openOrClosed, quotaEachPoll, type Scene, simulate } from './senders.ts';

const SCENE: Scene = {
  senders: 64,
  others: 0,
  maxSys: 32,
  threshold: 0.8,
  scrapeMs: 5000,
  pollMs: 1000,
  serviceMs: [1000, 4000],
  forMs: 300_000,
};

test('64 senders and a metric that is 5 s old never have more in flight than max_SYS x (1 - B)', async () => {
  const usage = await simulate(SCENE, gated);
  assert.ok(usage.highest <= 0.8, `saturation ${usage.highest}`);
  assert.ok(usage.mostInFlight >= 20, `only ${usage.mostInFlight} in flight at most`);
  assert.ok(usage.finished > 500, `only ${usage.finished} were finished`);
});

test('the gate leaves room for other senders that keep to their share', async () => {
  const usage = await simulate({ ...SCENE, others: 12 }, gated);
  assert.ok(usage.highest <= 0.8, `saturation ${usage.highest}`);
  assert.ok(usage.average >= 0.6, `only ${usage.average} used on average`);
});

test('short requests with fresh samples use most of the free capacity', async () => {
  const others = 3;
  const fresh = { scrapeMs: 50, pollMs: 200, serviceMs: [20, 80], forMs: 60_000 } as const;
  const scene: Scene = { ...SCENE, ...fresh, others, maxSys: 16, threshold: 0.75 };
  const { average, highest } = await simulate(scene, gated);
  const used = (average * scene.maxSys - others) / (scene.threshold * scene.maxSys - others);
  assert.ok(highest <= scene.threshold, `saturation ${highest}`);
  assert.ok(used >= 0.8, `${Math.round(used * 100)} % of what is left`);
});

test('64 senders overrun a gate that reads the same old metric at each poll', async () => {
  const [binary, quota] = [await simulate(SCENE, openOrClosed), await simulate(SCENE, quotaEachPoll)];
  assert.ok(binary.highest > 1.5, `saturation ${binary.highest}`);
  assert.ok(quota.highest > 1.2, `saturation ${quota.highest}`);
});
