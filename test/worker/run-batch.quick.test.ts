/** A batch through a modelet: the order of the calls, what each gets, and one reply per item. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { runBatch } from '../../src/runtime/worker/batch/run-batch.ts';
import { errorOf, input, inputs, modelet, run, settings } from './rig.ts';

test('in item mode the worker calls predict once per item, in order', async () => {
  const seen: unknown[] = [];
  const doubling = modelet({
    predict: (value) => {
      seen.push(value);
      return (value as number) * 2;
    },
  });
  assert.deepEqual(await run(doubling, inputs(1, 2, 3)), [{ value: 2 }, { value: 4 }, { value: 6 }]);
  assert.deepEqual(seen, [1, 2, 3]);
});

test('in item mode the next item begins when the previous one has ended', async () => {
  const order: string[] = [];
  const slow = modelet({
    predict: async (value) => {
      order.push(`begin ${value}`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`end ${value}`);
      return value;
    },
  });
  await run(slow, inputs('a', 'b'));
  assert.deepEqual(order, ['begin a', 'end a', 'begin b', 'end b']);
});

test('in batch mode the worker calls predict once with all inputs, even if there is one', async () => {
  const calls: unknown[] = [];
  const summing = modelet({
    batch: true,
    predict: (values) => {
      calls.push(values);
      return (values as number[]).map((value) => value + 1);
    },
  });
  assert.deepEqual(await run(summing, inputs(1, 2)), [{ value: 2 }, { value: 3 }]);
  assert.deepEqual(await run(summing, inputs(7)), [{ value: 8 }]);
  assert.deepEqual(calls, [[1, 2], [7]]);
});

test('a typed array is a batch result like any array', async () => {
  const scores = modelet({ batch: true, predict: () => new Float64Array([0.25, 0.5]) });
  assert.deepEqual(await run(scores, inputs('a', 'b')), [{ value: 0.25 }, { value: 0.5 }]);
});

test('items are prepared in turn, and at the same time if the modelet decodes them on other threads', async () => {
  for (const preparesAtOnce of [false, true]) {
    const order: string[] = [];
    const reading = modelet({
      preparesAtOnce,
      preprocess: async (value) => {
        order.push(`begin ${value}`);
        await new Promise((resolve) => setImmediate(resolve));
        if (value === 'b') throw new Error('unreadable');
        order.push(`end ${value}`);
        return value;
      },
    });
    const [first, second, third] = await run(reading, inputs('a', 'b', 'c'));
    assert.deepEqual([first, third], [{ value: 'a' }, { value: 'c' }]);
    assert.deepEqual(second, { code: 'modelet_failed', message: 'unreadable' });
    const [inTurn, atOnce] = [
      ['begin a', 'end a', 'begin b', 'begin c', 'end c'],
      ['begin a', 'begin b', 'begin c', 'end a', 'end c'],
    ];
    assert.deepEqual(order, preparesAtOnce ? atOnce : inTurn);
  }
});

test('each item passes preprocess, predict and postprocess, and postprocess gets the input of predict', async () => {
  const all = modelet({
    batch: true,
    preprocess: async (value) => `pre(${value})`,
    predict: async (values) => (values as string[]).map((value) => `predict(${value})`),
    postprocess: async (output, value) => ({ output, value }),
  });
  assert.deepEqual(await run(all, inputs('a', 'b')), [
    { value: { output: 'predict(pre(a))', value: 'pre(a)' } },
    { value: { output: 'predict(pre(b))', value: 'pre(b)' } },
  ]);
});

describe('postprocess gets the input of the same request', () => {
  const predicts: Readonly<Record<string, (values: string[]) => unknown[]>> = {
    'sorts its inputs': (values) => {
      const order = values
        .map((_, index) => index)
        .sort((a, b) => (values[a] as string).length - (values[b] as string).length);
      const results = values.map((value) => value.toUpperCase());
      values.splice(0, values.length, ...order.map((index) => values[index] as string));
      return results;
    },
    'empties its inputs': (values) => values.splice(0).map((value) => value.toUpperCase()),
    'replaces its inputs by its results': (values) => {
      for (const [index, value] of values.entries()) values[index] = value.toUpperCase();
      return values;
    },
  };
  for (const [does, predict] of Object.entries(predicts)) {
    test(`when predict ${does}`, async () => {
      const upper = modelet({
        batch: true,
        predict: (values) => predict(values as string[]),
        postprocess: (output, value) => `${value}: ${output}`,
      });
      assert.deepEqual(await run(upper, inputs('ccc', 'a', 'bb')), [
        { value: 'ccc: CCC' },
        { value: 'a: A' },
        { value: 'bb: BB' },
      ]);
    });
  }
});

describe('each request gets its own result', () => {
  test('when predict writes all results of a batch of single items into the same Buffer or typed array', async () => {
    for (const shared of [Buffer.alloc(2), new Float32Array(2), [0, 0]]) {
      const reusing = modelet({
        predict: (value) => {
          (shared as number[])[0] = value as number;
          return shared;
        },
      });
      const read = await run(reusing, inputs(1, 2, 3));
      const firsts = read.map((one) => ('value' in one ? (one.value as number[])[0] : one.message));
      assert.deepEqual(firsts, [1, 2, 3], shared.constructor.name);
    }
  });

  test('when postprocess writes all results of a batch into the same Buffer', async () => {
    const shared = Buffer.alloc(1);
    const reusing = modelet({
      batch: true,
      postprocess: (output) => {
        shared[0] = output as number;
        return shared;
      },
    });
    const values = [Buffer.from([1]), Buffer.from([2])].map((value) => ({ value }));
    assert.deepEqual(await run(reusing, inputs(1, 2)), values);
  });
});

test('null, false, 0 and empty text are results', async () => {
  const values = [null, false, 0, ''];
  assert.deepEqual(
    await run(modelet(), inputs(...values)),
    values.map((value) => ({ value })),
  );
});

test('predict gets the topic and message id of its item, if there are any', async () => {
  const metas: unknown[] = [];
  const meta = Buffer.from('{"topic":"t","_msgid":"m1"}');
  const noting = (batch: boolean) =>
    modelet({
      batch,
      predict: (value, of) => {
        metas.push(of);
        return value;
      },
    });
  const items = [input(1, { id: 1, meta }), input(2, { id: 2 })];
  await run(noting(false), items);
  await run(noting(true), items);
  const first = { topic: 't', _msgid: 'm1' };
  assert.deepEqual(metas, [first, {}, [first, {}]]);
});

test('the worker awaits promises in every part, also those of another realm', async () => {
  const later = runInNewContext('async (value) => { await null; return value; }') as (value: unknown) => unknown;
  const lazy = modelet({
    preprocess: (value) => later(`${value}1`),
    predict: (value) => later(`${value}2`),
    postprocess: (value) => later(`${value}3`),
  });
  assert.deepEqual(await run(lazy, inputs('a', 'b')), [{ value: 'a123' }, { value: 'b123' }]);
  const broken = runInNewContext('async () => { throw new Error("not today"); }') as () => unknown;
  assert.deepEqual(await run(modelet({ predict: broken }), inputs(1)), [
    { code: 'modelet_failed', message: 'not today' },
  ]);
});

test('the worker answers an empty batch without a call', async () => {
  const silent = modelet({ batch: true, predict: () => assert.fail('called') });
  assert.deepEqual(await run(silent, []), []);
});

test('a reply carries only the id and the payload of its item', async () => {
  const meta = Buffer.from('{}');
  const [reply] = await runBatch(modelet(), [input({ a: 1 }, { id: 9, priority: 4, meta, routeRef: 3 })], settings());
  assert.ok(reply);
  const { id, ok, meta: sent, timings } = reply;
  assert.deepEqual([id, ok, sent, [...timings]], [9, true, null, []]);
});

test('each item gets its own answer, whatever the others do', async () => {
  const deed = fc.constantFrom('ok', 'throw in preprocess', 'throw in predict', 'throw in postprocess', 'undefined');
  const acting = (batch: boolean) => {
    const predictOne = (value: unknown): unknown => {
      const { deed: what, number } = value as { deed: string; number: number };
      if (what === 'throw in predict') return new Error(`predict ${number}`);
      return what === 'undefined' ? undefined : { number, what };
    };
    return modelet({
      batch,
      preprocess: (value) => {
        const { deed: what, number } = value as { deed: string; number: number };
        if (what === 'throw in preprocess') throw new Error(`preprocess ${number}`);
        return value;
      },
      predict: (value) => (batch ? (value as unknown[]).map(predictOne) : predictOne(value)),
      postprocess: (output) => {
        const result = output as { number: number; what: string } | undefined;
        if (result?.what === 'throw in postprocess') throw new Error(`postprocess ${result.number}`);
        return result?.number;
      },
    });
  };
  await fc.assert(
    fc.asyncProperty(fc.array(deed, { maxLength: 8, size: 'max' }), fc.boolean(), async (deeds, batch) => {
      const items = inputs(...deeds.map((what, number) => ({ deed: what, number })));
      const expected = deeds.map((what, number) => {
        if (what === 'ok') return { value: number };
        const message =
          what === 'undefined'
            ? 'the modelet returned undefined: its code must return the result'
            : `${what.slice(9)} ${number}`;
        return { code: 'modelet_failed', message };
      });
      assert.deepEqual(await run(acting(batch), items), expected);
    }),
    { numRuns: 200 },
  );
});

test('an input that cannot be read fails its item alone', async () => {
  const metas = ['{"topic":"t"}', '{"topic":', 'null', '7', ''].map((text) => Buffer.from(text));
  for (const batch of [false, true]) {
    const items = metas.map((meta, index) => input(index, { id: index, meta }));
    const replies = await runBatch(modelet({ batch }), items, settings());
    const codes = replies.map((reply) => (reply.ok ? 'ok' : errorOf(reply).code));
    assert.deepEqual(codes, ['ok', 'protocol_error', 'protocol_error', 'protocol_error', 'protocol_error']);
  }
});
