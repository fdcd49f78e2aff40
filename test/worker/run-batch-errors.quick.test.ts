/** The blame for a failure, the items that it affects, and its error. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { ModeletError } from '../../src/core/errors.ts';
import { runBatch } from '../../src/runtime/worker/batch/run-batch.ts';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { item } from '../wire/frame-values.ts';
import { errorOf, input, inputs, MAX_BYTES, modelet, run, settings } from './rig.ts';

const failed = (message: string) => ({ code: 'modelet_failed', message });

function throwing(thrown: unknown): () => never {
  return () => {
    throw thrown;
  };
}

test('predict that throws fails its item in item mode and the whole batch in batch mode', async () => {
  const predict = (value: unknown): unknown => {
    if (value === 2 || Array.isArray(value)) throw new Error('boom');
    return value;
  };
  assert.deepEqual(await run(modelet({ predict }), inputs(1, 2, 3)), [{ value: 1 }, failed('boom'), { value: 3 }]);
  assert.deepEqual(await run(modelet({ batch: true, predict }), inputs(1, 2)), [failed('boom'), failed('boom')]);
  const rejecting = modelet({ batch: true, predict: async () => Promise.reject(new Error('later')) });
  assert.deepEqual(await run(rejecting, inputs(1)), [failed('later')]);
});

test('an Error at an index, of any realm, fails that item only', async () => {
  const foreign = runInNewContext('new RangeError("foreign")');
  const predict = () => ['a', new Error('mine'), foreign, 'd'];
  assert.deepEqual(await run(modelet({ batch: true, predict }), inputs(1, 2, 3, 4)), [
    { value: 'a' },
    failed('mine'),
    failed('foreign'),
    { value: 'd' },
  ]);
});

test('a returned Error counts as a thrown one', async () => {
  assert.deepEqual(await run(modelet({ predict: () => new Error('returned') }), inputs(1)), [failed('returned')]);
  assert.deepEqual(await run(modelet({ preprocess: () => new Error('early') }), inputs(1)), [failed('early')]);
  const all = modelet({ batch: true, predict: async () => new Error('all') });
  assert.deepEqual(await run(all, inputs(1, 2)), [failed('all'), failed('all')]);
});

const WRONG: readonly (readonly [string, unknown, RegExp])[] = [
  ['too few', ['a'], /returned 1 result for 2 inputs/],
  ['too many', ['a', 'b', 'c'], /returned 3 results for 2 inputs/],
  ['none', [], /returned 0 results for 2 inputs/],
  ['an object', { 0: 'a', 1: 'b', length: 2 }, /returned a value of type object instead of an array of 2 results/],
  ['text', 'ab', /a value of type string instead/],
  ['null', null, /returned null instead/],
  ['nothing', undefined, /a value of type undefined instead/],
];

for (const [name, result, message] of WRONG) {
  test(`a batch result that is ${name} is bad_batch_length for every item`, async () => {
    const replies = await run(modelet({ batch: true, predict: () => result }), inputs(1, 2));
    for (const reply of replies) {
      assert.ok('code' in reply);
      assert.equal(reply.code, 'bad_batch_length');
      assert.match(reply.message, message);
    }
  });
}

test('undefined is not a result, and in a batch it fails its item only', async () => {
  const none = failed('the modelet returned undefined: its code must return the result');
  assert.deepEqual(await run(modelet({ predict: () => undefined }), inputs(1)), [none]);
  const some = modelet({ batch: true, predict: () => [1, undefined, 3] });
  assert.deepEqual(await run(some, inputs(1, 2, 3)), [{ value: 1 }, none, { value: 3 }]);
});

test('an error with code invalid_input blames the caller wherever it is thrown, and any other blames the modelet', async () => {
  const refusal = Object.assign(new Error('no digit'), { code: 'invalid_input' });
  const expected = [{ code: 'invalid_input', message: 'no digit' }];
  for (const part of ['preprocess', 'predict', 'postprocess'] as const) {
    assert.deepEqual(await run(modelet({ [part]: throwing(refusal) }), inputs(1)), expected, part);
  }
  assert.deepEqual(
    await run(modelet({ predict: throwing({ code: 'invalid_input', message: 'no digit' }) }), inputs(1)),
    expected,
  );
  assert.deepEqual(await run(modelet({ batch: true, predict: () => [refusal] }), inputs(1)), expected);
  for (const code of ['payload_too_large', 'dropped', 'ENOENT', 422]) {
    const other = modelet({ predict: throwing(Object.assign(new Error('other'), { code })) });
    assert.deepEqual(await run(other, inputs(1)), [failed('other')]);
  }
});

test('the reply has the thrown error as its cause, with stage and stack', async () => {
  const thrown = Object.assign(new TypeError('deep'), { code: 'E_DEEP', row: 7 });
  const [reply] = await runBatch(modelet({ predict: throwing(thrown) }), inputs(1), settings());
  const error = errorOf(reply);
  assert.equal(error.stage, 'digits');
  assert.equal(error.stack, thrown.stack);
  const cause = error.cause as Error & { code?: unknown; row?: unknown };
  assert.deepEqual([cause.name, cause.code, cause.row], ['TypeError', 'E_DEEP', 7]);
});

test('thrown text, numbers and nothing at all become errors', async () => {
  for (const thrown of ['text', 42, null, undefined]) {
    const [reply] = await run(modelet({ predict: throwing(thrown) }), inputs(1));
    assert.ok(reply && 'code' in reply && reply.code === 'modelet_failed' && reply.message !== '');
  }
});

test('a result that cannot be encoded, or is too large, fails its item as modelet_failed', async () => {
  const results: unknown[] = [() => 1, Symbol('s'), { p: Promise.resolve() }, 'x'.repeat(MAX_BYTES + 1), 'fine'];
  const replies = await run(modelet({ batch: true, predict: () => results }), inputs(1, 2, 3, 4, 5));
  const messages = [/is a function/, /is a symbol/, /at p is a Promise/, /limit is/];
  for (const [index, message] of messages.entries()) {
    const reply = replies[index];
    assert.ok(reply && 'code' in reply && reply.code === 'modelet_failed');
    assert.match(reply.message, message);
  }
  assert.deepEqual(replies[4], { value: 'fine' });
});

test('if results are together too large for one reply, the largest fail and all others are sent', async () => {
  const sizes = [300, 500, 100, 400].map((kilobytes) => kilobytes * 1000);
  const texts = sizes.map((size) => 'x'.repeat(size));
  const replies = await run(modelet({ batch: true, predict: () => texts }), inputs(1, 2, 3, 4), {
    maxReplyBytes: 500_000,
    emitsLists: false,
  });
  for (const index of [0, 2]) assert.deepEqual(replies[index], { value: texts[index] });
  for (const index of [1, 3]) {
    const reply = replies[index];
    assert.ok(reply && 'code' in reply && reply.code === 'modelet_failed');
    assert.match(reply.message, /the results of the batch are 1300\d+ bytes together/);
  }
});

test('an input that cannot be decoded fails alone', async () => {
  const broken = item({ id: 2, payload: { codec: CODEC.json, bytes: Buffer.from('{') } });
  const replies = await run(modelet(), [input(1), broken]);
  assert.deepEqual(replies[0], { value: 1 });
  assert.ok(replies[1] && 'code' in replies[1]);
  assert.equal(replies[1].code, 'protocol_error');
});

function counting(parts: Partial<LoadedModelet> = {}): { of: LoadedModelet; seen: unknown[] } {
  const seen: unknown[] = [];
  const predict = (value: unknown): unknown => {
    seen.push(value);
    return value;
  };
  return { of: modelet({ preprocess: predict, predict, ...parts }), seen };
}

test('an expired item never reaches the modelet, at any place in the batch', async () => {
  const clock = new FakeClock(1000);
  const items = [
    input('late', { id: 1, deadline: 999 }),
    input('just late', { id: 2, deadline: 1000 }),
    input('in time', { id: 3, deadline: 1001 }),
    input('no deadline', { id: 4 }),
  ];
  for (const batch of [false, true]) {
    const { of, seen } = counting({ batch });
    const replies = await run(of, items, { clock });
    const late = { code: 'deadline_exceeded', message: 'deadline passed before predict' };
    assert.deepEqual(replies, [late, late, { value: 'in time' }, { value: 'no deadline' }]);
    assert.equal(seen.flat().includes('late') || seen.flat().includes('just late'), false);
  }
});

test('the worker does not run an item whose deadline passes while its neighbours run', async () => {
  const clock = new FakeClock(1000);
  const seen: unknown[] = [];
  const slow = modelet({
    predict: (value) => {
      seen.push(value);
      clock.advance(10);
      return value;
    },
  });
  const items = ['a', 'b', 'c', 'd'].map((value, index) => input(value, { id: index + 1, deadline: 1020 }));
  const late = { code: 'deadline_exceeded', message: 'deadline passed before predict' };
  assert.deepEqual(await run(slow, items, { clock }), [{ value: 'a' }, { value: 'b' }, late, late]);
  assert.deepEqual(seen, ['a', 'b']);
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

function unreadable(property: 'message' | 'stack' | 'code' | 'name' | 'cause'): Error {
  const get = (): never => {
    throw revoked();
  };
  return Object.defineProperty(new Error('x'), property, { get });
}

test('an error that cannot be read fails its item only', async () => {
  const hostile: Record<string, () => unknown> = {
    ...Object.fromEntries(
      (['message', 'stack', 'code', 'name', 'cause'] as const).flatMap((property) => [
        [`throws an error with an unreadable ${property}`, () => thrower(unreadable(property))],
        [`returns an error with an unreadable ${property}`, () => unreadable(property)],
      ]),
    ),
    'throws a revoked proxy': () => thrower(revoked()),
    'returns a revoked proxy': revoked,
    'returns a proxy of an error': () => new Proxy(new Error('x'), { get: () => thrower(revoked()) }),
  };
  for (const [name, act] of Object.entries(hostile)) {
    const each = await run(modelet({ predict: (value) => (value === 2 ? act() : value) }), inputs(1, 2, 3));
    assert.deepEqual([each[0], each[2]], [{ value: 1 }, { value: 3 }], name);
    assert.equal((each[1] as { code: string }).code, 'modelet_failed', name);
    if (name.startsWith('throws')) continue;
    const predict = (values: unknown): unknown => (values as unknown[]).map((value) => (value === 2 ? act() : value));
    const whole = await run(modelet({ batch: true, predict }), inputs(1, 2, 3));
    assert.deepEqual([whole[0], whole[2]], [{ value: 1 }, { value: 3 }], name);
    assert.equal((whole[1] as { code: string }).code, 'modelet_failed', name);
  }
});

function thrower(what: unknown): never {
  throw what;
}

test('a cancelled item never reaches the modelet, and no batch runs for cancelled items alone', async () => {
  for (const batch of [false, true]) {
    const { of, seen } = counting({ batch });
    const isCancelled = (id: number): boolean => id !== 2;
    const replies = await run(of, inputs('a', 'b', 'c'), { isCancelled });
    assert.deepEqual(
      replies.map((reply) => ('code' in reply ? reply.code : reply.value)),
      ['cancelled', 'b', 'cancelled'],
    );
    assert.deepEqual(seen.flat(), ['b', 'b']);
    seen.length = 0;
    await run(of, inputs('a'), { isCancelled: () => true });
    assert.deepEqual(seen, []);
  }
});

test('an item that preprocess refused does not count in the batch', async () => {
  const strict = modelet({
    batch: true,
    preprocess: (value) => {
      if (typeof value !== 'number') throw new ModeletError('invalid_input', 'not a number');
      return value;
    },
    predict: (values) => (values as number[]).map((value) => value + (values as number[]).length),
  });
  assert.deepEqual(await run(strict, inputs(10, 'x', 20)), [
    { value: 12 },
    { code: 'invalid_input', message: 'not a number' },
    { value: 22 },
  ]);
});
