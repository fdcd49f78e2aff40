/** The slowest requests and what they spent their time on, with real processes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { SlowRequest } from '../../../src/observe/meters/request-meters.ts';
import { serve, type TestService } from '../../fixtures/service.ts';

/** Input: ms to take, or `fail` after as many. */
const SLEEP = `
  await new Promise((resolve) => setTimeout(resolve, input.ms));
  if (input.fail) throw new Error('told to fail');
  return input.ms;`;
const PARTS = ['gateMs', 'entranceMs', 'waitMs', 'batchMs', 'runMs', 'transportMs', 'unansweredMs'] as const;

function slowest({ service }: TestService): readonly SlowRequest[] {
  const { slowest: listed } = service.snapshot();
  for (const request of listed) {
    const sum = PARTS.reduce((total, part) => total + request[part], 0);
    // A batch that waited in its worker begins before the engine hears that it may: wait and run overlap by that much.
    const overlap = request.transportMs === 0 ? sum - request.totalMs : 0;
    assert.ok(overlap > -0.1 && overlap < request.waitMs + 0.1, `the parts of ${JSON.stringify(request)} overlap`);
    assert.ok(Math.abs(sum - overlap - request.totalMs) < 0.1, `the parts of ${JSON.stringify(request)} add up`);
    assert.ok(request.agoMs >= 0);
  }
  return listed;
}

function find(listed: readonly SlowRequest[], requestId: string): SlowRequest {
  const found = listed.find((request) => request.requestId === requestId);
  assert.ok(found, `${requestId} is among the slowest`);
  return found;
}

describe('the slowest requests', () => {
  test('are listed with the parts of their time, the slowest first', async (t) => {
    const service = await serve(t, { stages: [{ id: 'first', inline: SLEEP }, { id: 'second' }] });
    await service.ready();
    for (let index = 0; index < 30; index += 1) await service.answer({ ms: 0 }, { requestId: `quick ${index}` });
    const slow = service.answer({ ms: 300 }, { requestId: 'slow', gateMs: 1000 });
    const behind = service.answer({ ms: 0 }, { requestId: 'behind', gateMs: 500 });
    await Promise.all([slow, behind]);

    const listed = slowest(service);
    assert.equal(listed.length, 20);
    const times = listed.map(({ totalMs }) => totalMs);
    assert.deepEqual(
      times,
      times.toSorted((a, b) => b - a),
    );
    assert.equal(listed[0]?.requestId, 'slow');
    const [held, waited] = [find(listed, 'slow'), find(listed, 'behind')];
    assert.equal(held.gateMs, 1000);
    assert.ok(held.runMs >= 290, 'what it ran is its own');
    assert.ok(waited.waitMs > 200 && waited.waitMs > waited.runMs, 'the one behind it waited for the worker');
    assert.deepEqual(
      held.stages.map(({ name }) => name),
      ['first', 'second'],
    );
    assert.equal(held.code, 'ok');
  });

  test('say where a request failed, and which got no answer', async (t) => {
    const service = await serve(t, { stages: [{ id: 'only', inline: SLEEP }] });
    await service.ready();
    const failing = await service.answer({ ms: 50, fail: true }, { requestId: 'failing' });
    const late = await service.answer({ ms: 1000 }, { requestId: 'late', timeoutMs: 100 });
    assert.deepEqual([failing.code, late.code], ['modelet_failed', 'deadline_exceeded']);
    const listed = slowest(service);
    const failed = find(listed, 'failing');
    assert.deepEqual([failed.code, failed.stage, failed.unansweredMs], ['modelet_failed', 'only', 0]);
    assert.ok(failed.runMs >= 45);
    const unanswered = find(listed, 'late');
    assert.equal(unanswered.code, 'deadline_exceeded');
    assert.ok(unanswered.unansweredMs >= 90 && unanswered.transportMs === 0);
  });

  test('say how long a patient request waited for admission', async (t) => {
    const service = await serve(t, { stages: [{ id: 'narrow', inline: SLEEP, capacity: 1 }] });
    await service.ready();
    // One queued, and one running and one sent ahead for the one worker: no more are let in.
    const asked = ['a', 'b', 'c', 'd'].map((requestId) => service.answer({ ms: 150 }, { requestId, patient: true }));
    await Promise.all(asked);
    const listed = slowest(service);
    assert.ok(find(listed, 'd').entranceMs >= 140);
    assert.ok(find(listed, 'a').entranceMs < find(listed, 'd').entranceMs);
  });
});
