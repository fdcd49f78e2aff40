/** Five times what a stage can do: what is answered in time does not collapse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ModeletError } from '../../src/core/errors.ts';
import { serve, type TestService } from '../fixtures/service.ts';

/** What one item costs: waiting, so that a busy machine changes little. */
const RUN_MS = 5;
const TIMEOUT_MS = 300;
const ROUND_MS = 1500;

const COSTLY = `
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${RUN_MS});
  return input.n;`;

/** Sends at a rate, whatever is answered; gives how many were answered in time, per second. */
async function offer(service: TestService, perSecond: number): Promise<number> {
  const answers: Promise<unknown>[] = [];
  let good = 0;
  const start = performance.now();
  for (let sent = 0; performance.now() - start < ROUND_MS; await delay(1)) {
    for (const due = ((performance.now() - start) / 1000) * perSecond; sent < due; sent += 1) {
      try {
        const { answer } = service.ask({ n: sent }, { timeoutMs: TIMEOUT_MS });
        answers.push(
          answer.then(({ code }) => {
            if (code === 'ok') good += 1;
            else assert.ok(['deadline_exceeded', 'capacity_exceeded'].includes(code), code);
          }),
        );
      } catch (thrown) {
        assert.equal((thrown as ModeletError).code, 'capacity_exceeded');
      }
    }
  }
  const seconds = (performance.now() - start) / 1000;
  await Promise.all(answers);
  return good / seconds;
}

/** What one caller after the other gets, per second. */
async function sustainable(service: TestService): Promise<number> {
  const start = performance.now();
  for (let n = 0; n < 100; n += 1) await service.value({ n });
  return 100_000 / (performance.now() - start);
}

test('at 5 times the sustainable rate as much is answered in time as at that rate', async (t) => {
  const service = await serve(t, { stages: [{ id: 'costly', inline: COSTLY }] });
  await service.ready();
  const rate = await sustainable(service);
  const once = await offer(service, rate);
  const fivefold = await offer(service, 5 * rate);
  const found = JSON.stringify({ rate, once, fivefold });
  t.diagnostic(found);
  assert.ok(fivefold >= 0.5 * once, found);
});
