/** Results that come in parts: what becomes of each part, of the end, and of an unwanted part. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { type BatchRun, runBatch } from '../../src/runtime/worker/batch/run-batch.ts';
import { MOST_BYTES_UNDER_WAY, MOST_UNDER_WAY, PartsOut } from '../../src/runtime/worker/batch/stream.ts';
import { CODEC, decodePayload } from '../../src/wire/codec/codec.ts';
import type { WireItem } from '../../src/wire/frames/items.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { input, inputs, MAX_BYTES, modelet, type Read, read, run, settings } from './rig.ts';

async function* count(to: unknown): AsyncGenerator<number, void> {
  for (let number = 1; number <= (to as number); number += 1) yield number;
}

/** One request whose parts are wanted, and what has come of it. */
class Streamed {
  readonly sent: unknown[] = [];
  readonly indexes: number[] = [];
  /** Takes each part as soon as it has come; else the test says what has been taken. */
  takes = true;
  readonly parts: PartsOut = new PartsOut((part) => this.#receive(part));
  readonly answer: Promise<Read>;

  constructor(predict: (value: unknown) => unknown, overrides: Parameters<typeof modelet>[0] = {}, settle = {}) {
    const item = input(3, { id: 7, streams: true });
    const settingsOf: BatchRun = settings({ parts: this.parts, ...settle });
    this.answer = runBatch(modelet({ predict, ...overrides }), [item], settingsOf).then(([reply]) =>
      read(reply as WireItem),
    );
  }

  taken(parts: number): void {
    this.parts.taken(7, parts);
  }

  /** Until nothing more comes by itself. */
  async quiet(): Promise<void> {
    for (let before = -1; before !== this.sent.length; ) {
      before = this.sent.length;
      for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #receive(part: WireItem): void {
    assert.equal(part.id, 7);
    this.sent.push(decodePayload(part.payload));
    this.indexes.push(part.part);
    if (this.takes) setImmediate(() => this.taken(part.part + 1));
  }
}

describe('a generator whose parts are wanted', () => {
  test('sends each part at once, with its index, and null as the end', async () => {
    const streamed = new Streamed(count);
    assert.deepEqual(await streamed.answer, { value: null });
    assert.deepEqual(streamed.sent, [1, 2, 3]);
    assert.deepEqual(streamed.indexes, [0, 1, 2]);
  });

  test('of a stage that emits lists sends its parts, and without a caller for them makes a list', async () => {
    const streamed = new Streamed(count, {}, { emitsLists: true });
    assert.deepEqual(await streamed.answer, { value: null });
    const [reply] = await runBatch(modelet({ predict: count }), [input(3)], settings({ emitsLists: true }));
    assert.equal(reply?.payload.codec, CODEC.list);
    assert.deepEqual(read(reply as WireItem), { value: [1, 2, 3] });
  });

  test('sends each part with its own bytes, even if it writes all of them into the same Buffer', async () => {
    const sent: WireItem[] = [];
    const parts = new PartsOut((part) => sent.push(part));
    const reusing = modelet({
      *predict() {
        const shared = Buffer.alloc(1);
        for (shared[0] = 1; (shared[0] as number) <= 3; shared[0] += 1) yield shared;
      },
    });
    await runBatch(reusing, [input(3, { streams: true })], settings({ parts }));
    assert.deepEqual(
      sent.map(({ payload }) => (decodePayload(payload) as Buffer)[0]),
      [1, 2, 3],
    );
  });

  test('ends with its return value', async () => {
    const streamed = new Streamed(async function* () {
      yield 'a';
      return { tokens: 1 };
    });
    assert.deepEqual(await streamed.answer, { value: { tokens: 1 } });
    assert.deepEqual(streamed.sent, ['a']);
  });

  test('fails with an Error that it returns, and its promises are awaited', async () => {
    const refused = new Streamed(function* () {
      yield Promise.resolve('a');
      return new Error('no end');
    });
    assert.deepEqual(await refused.answer, { code: 'modelet_failed', message: 'no end' });
    assert.deepEqual(refused.sent, ['a']);
    const rejected = new Streamed(function* () {
      yield 'a';
      return Promise.reject(new Error('no end'));
    });
    assert.deepEqual(await rejected.answer, { code: 'modelet_failed', message: 'no end' });
  });

  test('passes each part to postprocess with the input, but not the end', async () => {
    const streamed = new Streamed(count, { postprocess: async (part, value) => `${part}/${value}` });
    assert.deepEqual(await streamed.answer, { value: null });
    assert.deepEqual(streamed.sent, ['1/3', '2/3', '3/3']);
  });

  test('ends with a part that violates the schema, after the earlier parts were sent, and is closed', async () => {
    let closed = false;
    const checks = {
      input: null,
      output: (part: unknown) => {
        if (part === 2) throw Object.assign(new Error('no two'), { code: 'modelet_failed' });
      },
    };
    const streamed = new Streamed(
      async function* () {
        try {
          yield* count(3);
        } finally {
          closed = true;
        }
      },
      {},
      { checks },
    );
    assert.deepEqual(await streamed.answer, { code: 'modelet_failed', message: 'no two' });
    assert.deepEqual([streamed.sent, closed], [[1], true]);
  });

  test('ends with an error that it throws or yields, and with a part that cannot be sent', async () => {
    const ways: readonly (readonly [() => unknown, RegExp])[] = [
      [() => assert.fail('boom'), /^boom$/],
      [() => new RangeError('yielded'), /^yielded$/],
      [() => undefined, /yielded undefined/],
      [() => () => 1, /is a function/],
      [() => 'x'.repeat(MAX_BYTES + 1), /limit is/],
    ];
    for (const [second, message] of ways) {
      const streamed = new Streamed(function* () {
        yield 1;
        yield second();
      });
      const answer = await streamed.answer;
      assert.ok('code' in answer && answer.code === 'modelet_failed', message.source);
      assert.match(answer.message, message);
      assert.deepEqual(streamed.sent, [1]);
    }
  });

  test('sends parts if a plain result has none', async () => {
    for (const value of [[1, 2], 'text', new Map([[1, 2]]), { next: 1 }, Buffer.from('b')]) {
      const streamed = new Streamed(() => value);
      assert.deepEqual(await streamed.answer, { value });
      assert.deepEqual(streamed.sent, []);
    }
  });

  test('generators of both kinds, iterators and streams have', async () => {
    const sources: readonly (() => unknown)[] = [
      () => count(2),
      async () => count(2),
      function* () {
        yield* [1, 2];
      },
      () => [1, 2].values(),
      () => Readable.from([1, 2]),
    ];
    for (const source of sources) {
      const streamed = new Streamed(source);
      assert.deepEqual(await streamed.answer, { value: null });
      assert.deepEqual(streamed.sent, [1, 2]);
    }
  });
});

describe('a generator whose parts are not wanted', () => {
  test('gives all its parts as the result, or its return value', async () => {
    assert.deepEqual(await run(modelet({ predict: count }), inputs(0, 2)), [{ value: [] }, { value: [1, 2] }]);
    const returning = modelet({
      *predict() {
        yield 1;
        return 'all';
      },
    });
    assert.deepEqual(await run(returning, inputs(1)), [{ value: 'all' }]);
  });

  test('keeps each part as it was when yielded, even if it yields the same object again', async () => {
    const reusing = modelet({
      *predict() {
        const words: string[] = [];
        for (const word of ['a', 'b']) {
          words.push(word);
          yield words;
        }
      },
    });
    assert.deepEqual(await run(reusing, inputs(1)), [{ value: [['a'], ['a', 'b']] }]);
  });

  test('is closed before its end when its parts exceed the size of a result', async () => {
    const endless = modelet({
      *predict() {
        for (;;) yield 'x'.repeat(10_000);
      },
    });
    const [answer] = await run(endless, inputs(1));
    assert.ok(answer && 'code' in answer && answer.code === 'modelet_failed');
    assert.match(answer.message, /more than 1048576 bytes together/);
  });

  test('is modelet_failed as the result of a batch, or in it', async () => {
    const whole = modelet({ batch: true, predict: () => count(2) });
    for (const answer of await run(whole, inputs(1, 2))) {
      assert.ok('code' in answer && answer.code === 'modelet_failed');
      assert.match(answer.message, /iterator for a batch/);
    }
    const [first, second] = await run(modelet({ batch: true, predict: () => [1, count(2)] }), inputs(1, 2));
    assert.deepEqual(first, { value: 1 });
    assert.ok(second && 'code' in second && second.code === 'modelet_failed');
  });
});

describe('a generator without end', () => {
  test('waits while the maximum number of parts is in progress', async () => {
    let made = 0;
    const streamed = new Streamed(function* () {
      for (;;) {
        made += 1;
        yield made;
      }
    });
    streamed.takes = false;
    await streamed.quiet();
    assert.equal(made, MOST_UNDER_WAY);
    streamed.taken(5);
    await streamed.quiet();
    assert.equal(made, MOST_UNDER_WAY + 5);
    streamed.taken(5);
    await streamed.quiet();
    assert.equal(made, MOST_UNDER_WAY + 5, 'what was told before is not counted again');
    streamed.parts.cancel([7]);
    assert.deepEqual(await streamed.answer, { value: null }, 'the generator has been closed');
  });

  test('waits while the maximum number of bytes is in progress', async () => {
    const large = 'x'.repeat(MOST_BYTES_UNDER_WAY / 2);
    const streamed = new Streamed(function* () {
      for (;;) yield large;
    });
    streamed.takes = false;
    await streamed.quiet();
    assert.equal(streamed.sent.length, 2);
    streamed.taken(1);
    await streamed.quiet();
    assert.equal(streamed.sent.length, 3);
    streamed.parts.cancel([7]);
    await streamed.answer;
  });

  test('ends with its request: its finally block runs, and no part follows', async () => {
    const cancelled = new Set<number>();
    let closed = false;
    const streamed = new Streamed(
      function* () {
        try {
          for (;;) yield 'x';
        } finally {
          closed = true;
        }
      },
      {},
      { isCancelled: (id: number) => cancelled.has(id) },
    );
    await new Promise((resolve) => setImmediate(resolve));
    cancelled.add(7);
    streamed.parts.cancel([8]);
    assert.equal(closed, false, 'another one is not this one');
    streamed.parts.cancel([7]);
    const before = streamed.sent.length;
    const answer = await streamed.answer;
    assert.ok('code' in answer && answer.code === 'cancelled');
    assert.deepEqual([closed, streamed.sent.length], [true, before]);
  });

  test('lets the worker learn of a cancellation between any two parts, also if they are gathered', async () => {
    const parts = new PartsOut(() => {});
    const cancelled = new Set<number>();
    const endless = modelet({
      *predict() {
        for (;;) yield 1;
      },
    });
    setImmediate(() => {
      cancelled.add(7);
      parts.cancel([7]);
    });
    const [answer] = await run(endless, [input(3, { id: 7 })], { parts, isCancelled: (id) => cancelled.has(id) });
    assert.ok(answer && 'code' in answer && answer.code === 'cancelled');
  });

  test('ends when its deadline has passed', async () => {
    const clock = new FakeClock();
    const item = input(3, { id: 7, deadline: clock.now() + 10 });
    const endless = modelet({
      *predict() {
        yield 1;
        clock.advance(10);
        for (;;) yield 2;
      },
    });
    const [answer] = await run(endless, [item], { clock });
    assert.ok(answer && 'code' in answer && answer.code === 'deadline_exceeded');
  });

  test('whose end fails does not block the next request', async () => {
    const stubborn = modelet({
      *predict(value) {
        try {
          yield value === 1 ? undefined : value;
        } finally {
          if (value === 1) assert.fail('at the end');
        }
      },
    });
    const answers = await run(stubborn, inputs(1, 2));
    assert.deepEqual(answers, [{ code: 'modelet_failed', message: 'the modelet yielded undefined' }, { value: [2] }]);
  });
});
