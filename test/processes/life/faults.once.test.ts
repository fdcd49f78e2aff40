/** Bad items and bad modelets get their codes, while neighbours get answers and the worker lives on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ErrorCode, HTTP_STATUS } from '../../../src/core/errors.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { type Answer, serve, type TestService } from '../../fixtures/service.ts';

const MEGABYTE = 1024 * 1024;

interface Item {
  readonly n: number;
  readonly fault?: string;
  readonly bytes?: number;
}

interface Fine {
  readonly n: number;
  readonly batchSize: number;
  readonly worker: string;
}

function serveFaults(t: Parameters<typeof serve>[0], isolation: (typeof ISOLATIONS)[number]): Promise<TestService> {
  return serve(t, {
    config: { maxPayloadBytes: MEGABYTE },
    stages: [{ id: 'model', file: 'faults', isolation, batch: { maxBatchSize: 100 } }],
  });
}

/** Sends items in one go, which makes one batch of them. */
function together(service: TestService, items: readonly Item[]): Promise<Answer[]> {
  return Promise.all(items.map((item) => service.answer(item)));
}

function assertFine(answer: Answer | undefined, n: number, worker: string): void {
  assert.equal(answer?.code, 'ok', answer?.error?.message);
  const value = answer?.value as Fine;
  assert.equal(value.n, n);
  assert.equal(value.worker, worker, 'the worker lives on');
}

function assertError(answer: Answer | undefined, code: ErrorCode, message: RegExp): void {
  assert.equal(answer?.code, code, answer?.error?.message ?? JSON.stringify(answer?.value));
  assert.equal(answer?.error?.statusCode, HTTP_STATUS[code]);
  assert.equal(answer?.error?.stage, 'model');
  assert.match(answer?.error?.message ?? '', message);
}

/** The items of the batch but the one at fault get their results. */
const FAILS_ALONE: readonly [fault: string, code: ErrorCode, message: RegExp, bytes?: number][] = [
  ['bad-item', 'invalid_input', /^x must be positive$/],
  ['preprocess', 'modelet_failed', /^cannot be prepared$/],
  ['postprocess', 'modelet_failed', /^cannot be finished$/],
  ['error', 'modelet_failed', /^this item only$/],
  ['refusal-error', 'invalid_input', /^this value only$/],
  ['no-result', 'modelet_failed', /undefined/],
  ['function', 'modelet_failed', /function/],
  ['nested-function', 'modelet_failed', /a\.0\.f is a function/],
  ['symbol', 'modelet_failed', /symbol/],
  ['getter', 'modelet_failed', /a getter that throws/],
  ['promise', 'modelet_failed', /Promise/],
  ['big', 'modelet_failed', /limit is 1048576 bytes/, MEGABYTE],
];

/** The whole batch fails: which item is at fault cannot be told. */
const FAILS_TOGETHER: readonly [fault: string, code: ErrorCode, message: RegExp][] = [
  ['throw', 'modelet_failed', /^no such weights$/],
  ['reject', 'modelet_failed', /^rejected$/],
  ['throw-refusal', 'invalid_input', /^nobody may ask that$/],
  ['throw-string', 'modelet_failed', /^a bare string$/],
  ['throw-undefined', 'modelet_failed', /undefined/],
  ['throw-object', 'modelet_failed', /^no Error at all$/],
  ['throw-hostile', 'modelet_failed', /./],
  ['too-few', 'bad_batch_length', /2 results for 3 inputs/],
  ['too-many', 'bad_batch_length', /4 results for 3 inputs/],
  ['no-array', 'bad_batch_length', /object instead of an array of 3/],
  ['nothing', 'bad_batch_length', /undefined instead of an array of 3/],
];

for (const isolation of ISOLATIONS) {
  test(`in a batch (${isolation})`, async (t) => {
    const service = await serveFaults(t, isolation);
    const { worker } = await service.value<Fine>({ n: 0 });

    for (const [fault, code, message, bytes] of FAILS_ALONE) {
      await t.test(`${fault}: ${code} for that item alone`, async () => {
        const answers = await together(service, [{ n: 1 }, { n: 2, fault, ...(bytes ? { bytes } : {}) }, { n: 3 }]);
        assert.equal(answers[1]?.timings[0]?.batchSize, 3, 'they were in one batch');
        assertFine(answers[0], 1, worker);
        assertError(answers[1], code, message);
        assertFine(answers[2], 3, worker);
        assertFine(await service.answer({ n: 4 }), 4, worker);
      });
    }

    for (const [fault, code, message] of FAILS_TOGETHER) {
      await t.test(`${fault}: ${code} for the whole batch, and the next one is served`, async () => {
        const answers = await together(service, [{ n: 1 }, { n: 2, fault }, { n: 3 }]);
        assert.equal(answers[0]?.timings[0]?.batchSize, 3, 'they were in one batch');
        for (const answer of answers) assertError(answer, code, message);
        assertFine(await service.answer({ n: 4 }), 4, worker);
      });
    }

    await t.test('several faults at once: each item gets its own error', async () => {
      const items = FAILS_ALONE.map(([fault, , , bytes], n) => ({ n, fault, ...(bytes ? { bytes } : {}) }));
      const answers = await together(service, [...items, { n: 100 }]);
      for (const [index, [, code, message]] of FAILS_ALONE.entries()) assertError(answers[index], code, message);
      assertFine(answers.at(-1), 100, worker);
    });
  });
}

describe('item by item', () => {
  test('predict that fails for one item of a shipped batch fails that one alone', async (t) => {
    const service = await serve(t, {
      stages: [
        {
          id: 'model',
          inline: `
            if (input === 'throw') throw new TypeError('thrown');
            if (input === 'reject') await Promise.reject(new TypeError('rejected'));
            if (input === 'string') throw 'a bare string';
            if (input === 'undefined') return;
            if (input === 'error') return new RangeError('returned');
            if (input === 'refuse') throw Object.assign(new Error('refused'), { code: 'invalid_input' });
            return process.pid;`,
          batch: { maxBatchSize: 10 },
        },
      ],
    });
    const pid = await service.value<number>('warm');
    const inputs = ['fine', 'throw', 'reject', 'string', 'undefined', 'error', 'refuse', 'fine'];
    const answers = await Promise.all(inputs.map((input) => service.answer(input)));
    assert.equal(answers[0]?.timings[0]?.batchSize, inputs.length);
    assert.deepEqual(
      answers.map(({ code, error, value }) => [code, error?.message ?? value]),
      [
        ['ok', pid],
        ['modelet_failed', 'thrown'],
        ['modelet_failed', 'rejected'],
        ['modelet_failed', 'a bare string'],
        ['modelet_failed', 'the modelet returned undefined: its code must return the result'],
        ['modelet_failed', 'returned'],
        ['invalid_input', 'refused'],
        ['ok', pid],
      ],
    );
    assert.equal(await service.value('fine'), pid);
  });
});

for (const isolation of ISOLATIONS) {
  describe(`a thrown error arrives unchanged (${isolation})`, () => {
    test('with class name, message, stack, own fields and all causes', async (t) => {
      const service = await serveFaults(t, isolation);
      const { error } = await service.answer({ n: 1, fault: 'throw' });
      assert.equal(error?.name, 'ModeletError');
      assert.match(error?.stack ?? '', /faults\.js/);

      const thrown = error?.cause as Error & { layer: number };
      assert.equal(thrown.name, 'ModelError');
      assert.equal(thrown.message, 'no such weights');
      assert.equal(thrown.layer, 3);
      assert.match(
        thrown.stack ?? '',
        /^ModelError: no such weights\n +at .*throw .*test\/fixtures\/modelets\/faults\.js:\d+/,
      );
      const underneath = thrown.cause as Error;
      assert.equal(underneath.name, 'TypeError');
      assert.equal(underneath.message, 'shape 3x4 expected');
      assert.match(underneath.stack ?? '', /faults\.js/);
      assert.equal((underneath.cause as Error).message, 'disk');
    });

    test('with the text of a returned Error and of a thrown object', async (t) => {
      const service = await serveFaults(t, isolation);
      const returned = (await service.answer({ n: 1, fault: 'error' })).error?.cause as Error;
      assert.equal(returned.name, 'ModelError');
      assert.equal((returned.cause as Error).message, 'underneath');
      const refused = (await service.answer({ n: 1, fault: 'bad-item' })).error?.cause as Error & { code: string };
      assert.deepEqual([refused.name, refused.code], ['RangeError', 'invalid_input']);
      const object = (await service.answer({ n: 1, fault: 'throw-object' })).error?.cause as Error & { code: number };
      assert.equal(object.code, 42);
    });
  });
}
