/** Promise 1 under load: every request is answered exactly once, with its own answer. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Answer, type PlanSpec, serve, type TestService } from '../../fixtures/service.ts';

const REQUESTS = 10_000;
const IN_FLIGHT = 256;

const THREE_STAGES: PlanSpec = {
  stages: [
    { id: 'a', file: 'tag', workers: 2, init: { fault: { code: 'invalid_input' } } },
    { id: 'b', file: 'tag', predict: 'batch', batch: { maxBatchSize: 32 } },
    { id: 'c', file: 'tag', workers: 3 },
  ],
};

interface Payload {
  readonly n: number;
  readonly text: string;
  readonly failIn?: string | undefined;
}

/** Sends `count` payloads, never more than `IN_FLIGHT` at a time; hands each answer on with its payload. */
async function flood(
  service: TestService,
  count: number,
  payloadOf: (n: number) => Payload,
  check: (payload: Payload, answer: Answer) => void,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const payload = payloadOf(next);
      next += 1;
      check(payload, await service.answer(payload));
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

/** Distinct in content and in length. */
function payloadOf(n: number): Payload {
  return { n, text: `payload ${n} ${'.'.repeat(n % 97)}` };
}

function checkResult({ n, text }: Payload, answer: Answer): void {
  assert.equal(answer.code, 'ok', answer.error?.message);
  assert.deepEqual(answer.value, { n, text, way: ['a', 'b', 'c'] });
  assert.equal(answer.timings.length, 3);
}

describe('under load', () => {
  test('each of 10,000 requests, 256 in flight over three stages, gets its own result once', async (t) => {
    const service = await serve(t, THREE_STAGES);
    await service.ready();
    const workers = [new Set<number>(), new Set<number>(), new Set<number>()];
    const sizes = [0, 0, 0];
    await flood(service, REQUESTS, payloadOf, (payload, answer) => {
      checkResult(payload, answer);
      answer.timings.forEach((timing, stage) => {
        workers[stage]?.add(timing.worker);
        sizes[stage] = Math.max(sizes[stage] as number, timing.batchSize);
      });
    });

    const { requests, lateOutcomes, backlog } = service.service.snapshot();
    assert.equal(requests['ok'], REQUESTS);
    assert.equal(lateOutcomes, 0);
    assert.equal(backlog, 0);
    assert.deepEqual(
      workers.map((set) => set.size),
      [2, 1, 3],
      'all workers took part',
    );
    assert.deepEqual([sizes[0], sizes[2]], [1, 1], 'no batcher, no batch');
    assert.ok((sizes[1] as number) > 1 && (sizes[1] as number) <= 32, `batches of up to 32, largest ${sizes[1]}`);
  });

  test('requests that fail in one of the stages get their error, and the others their result', async (t) => {
    const service = await serve(t, THREE_STAGES);
    await service.ready();
    const codes = { a: 'invalid_input', b: 'modelet_failed', c: 'modelet_failed' } as const;
    const failing = (n: number): 'a' | 'b' | 'c' | undefined => (['a', 'b', 'c'] as const)[n % 20 ? 3 : (n / 20) % 3];
    let failed = 0;
    await flood(
      service,
      REQUESTS,
      (n) => ({ ...payloadOf(n), failIn: failing(n) }),
      (payload, answer) => {
        const stage = failing(payload.n);
        if (!stage) return checkResult(payload, answer);
        failed += 1;
        assert.equal(answer.code, codes[stage]);
        assert.equal(answer.error?.stage, stage);
        assert.equal(answer.error?.message, `item ${payload.n} failed`);
        assert.equal(answer.timings.length, ['a', 'b', 'c'].indexOf(stage) + 1, 'no later stage saw it');
      },
    );

    const { requests, lateOutcomes, stages } = service.service.snapshot();
    assert.equal(failed, REQUESTS / 20);
    assert.equal(requests['ok'], REQUESTS - failed);
    assert.equal(requests['invalid_input'], Math.ceil(failed / 3));
    assert.equal(requests['modelet_failed'], failed - Math.ceil(failed / 3));
    assert.equal(lateOutcomes, 0);
    for (const { workers } of stages) for (const { restarts } of workers) assert.equal(restarts, 0);
  });

  test('runs of different length overtake one another, and each answer finds its request', async (t) => {
    const service = await serve(t, { stages: [{ id: 'sleep', file: 'sleep', workers: 3 }] });
    await service.ready();
    const settled: number[] = [];
    const inputs = Array.from({ length: 200 }, (_, n) => ({ n, ms: n % 3 === 0 ? 12 : 0 }));
    await Promise.all(
      inputs.map(async (input) => {
        assert.deepEqual(await service.value(input), input);
        settled.push(input.n);
      }),
    );
    assert.deepEqual(
      settled.toSorted((a, b) => a - b),
      inputs.map(({ n }) => n),
    );
    assert.notDeepEqual(
      settled,
      inputs.map(({ n }) => n),
      'not in the order they came',
    );
  });
});
