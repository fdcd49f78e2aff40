/** Five times what a stage can do: what is answered in time does not collapse, and memory does not grow. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { ModeletError } from '../../../src/core/errors.ts';
import { residentMb } from '../../bench/measure.ts';
import { serve, type TestService } from '../../fixtures/service.ts';

/** The cost of one item is waiting time, so that a busy machine changes little. */
const RUN_MS = 5;
const TIMEOUT_MS = 300;
const ROUND_MS = 1500;

const BALLAST_BYTES = 512 * 1024;
/** Also on a slow machine: so much would stay in memory that the usual ups and downs of a process are little beside it. */
const LEAST_PER_SECOND = 250;

const COSTLY = `
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${RUN_MS});
  return input.n;`;

interface Offer {
  readonly timeoutMs?: number;
  /** Sent along with each. */
  readonly ballast?: Uint8Array;
  /** Called when all are sent, before they are all answered. */
  onSent?(): void;
}

/** Sends at a rate, whatever is answered; gives how many were answered in time while it did, per second. */
async function offer(service: TestService, perSecond: number, options: Offer = {}): Promise<number> {
  const { timeoutMs = TIMEOUT_MS, ballast, onSent } = options;
  const answers: Promise<unknown>[] = [];
  let good = 0;
  let sending = true;
  const start = performance.now();
  for (let sent = 0; performance.now() - start < ROUND_MS; await delay(1)) {
    for (const due = ((performance.now() - start) / 1000) * perSecond; sent < due; sent += 1) {
      try {
        const { answer } = service.ask({ n: sent, ballast }, { timeoutMs });
        answers.push(
          answer.then(({ code }) => {
            if (code === 'ok') good += sending ? 1 : 0;
            else assert.ok(['deadline_exceeded', 'capacity_exceeded'].includes(code), code);
          }),
        );
      } catch (thrown) {
        assert.equal((thrown as ModeletError).code, 'capacity_exceeded');
      }
    }
  }
  const seconds = (performance.now() - start) / 1000;
  sending = false;
  onSent?.();
  await Promise.all(answers);
  return good / seconds;
}

/** Answers per second to callers in turn. */
async function sustainable(service: TestService): Promise<number> {
  const start = performance.now();
  for (let n = 0; n < 100; n += 1) await service.value({ n });
  return 100_000 / (performance.now() - start);
}

test('the engine answers as many requests in time at 5 times the sustainable rate as at that rate', async (t) => {
  const service = await serve(t, { stages: [{ id: 'costly', inline: COSTLY }] });
  await service.ready();
  const rate = await sustainable(service);
  const once = await offer(service, rate);
  const fivefold = await offer(service, 5 * rate);
  const found = JSON.stringify({ rate, once, fivefold });
  t.diagnostic(found);
  assert.ok(fivefold >= 0.8 * once, found);
});

test('the engine and its worker do not grow over time at 5 times the sustainable rate or more', async (t) => {
  const service = await serve(t, { stages: [{ id: 'costly', inline: COSTLY, capacity: 32 }] });
  const [worker] = (await service.ready())['costly'] as [number];
  const memory = (): number => residentMb(service.service.snapshot().engine.pid as number) + residentMb(worker);
  const rate = await sustainable(service);
  const offered = Math.max(5 * rate, LEAST_PER_SECOND);
  const ballast = new Uint8Array(BALLAST_BYTES);
  const floods: Promise<number>[] = [];
  /** Gives the memory when all are sent and not yet answered. */
  const flood = (): Promise<number> =>
    new Promise((resolve) => {
      const onSent = (): void => resolve(memory());
      floods.push(offer(service, offered, { timeoutMs: 60_000, ballast, onSent }));
    });
  const warm = await flood();
  await flood();
  const later = await flood();
  await Promise.all(floods);
  const unserved = (2 * (offered - rate) * ROUND_MS * BALLAST_BYTES) / 1000 / 2 ** 20;
  const found = `${Math.round(warm)} MB, then ${Math.round(later)} MB; ${Math.round(unserved)} MB were too much`;
  t.diagnostic(found);
  assert.ok(later - warm < unserved / 3, found);
});
