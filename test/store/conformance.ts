/** The contract of every queue. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { QueueLimits } from '../../src/gate/store/work-queue.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { claim, endAll, idsOf, item, items, LEASE_MS, LIMITS } from './bed.ts';
import { AGAIN, type Check, type Traits, type Tried, testAsking } from './conformance-asking.ts';

export interface Kind {
  readonly name: string;
  /** Why it cannot be tried here. */
  readonly skip: string | false;
  readonly traits: Traits;
  make(t: TestContext, limits: QueueLimits): Tried | Promise<Tried>;
}

export function testConformance(kind: Kind): void {
  const check: Check = (name, body, limits = {}) => {
    test(`${kind.name}: ${name}`, { skip: kind.skip }, async (t) => {
      await body({ ...(await kind.make(t, { ...LIMITS, ...limits })), traits: kind.traits });
    });
  };

  describe(`${kind.name}: storing`, () => {
    check('the queue stores an id once, even after its end, until it forgets the outcome', async ({ queue, time }) => {
      assert.deepEqual(await queue.enqueue([item('a'), item('b'), item('a')]), ['new', 'new', 'duplicate']);
      assert.deepEqual(await queue.enqueue([item('b')]), ['duplicate']);
      const held = await claim(queue, 10);
      assert.deepEqual(await queue.enqueue([item('b')]), ['duplicate'], 'while it runs');
      await endAll(queue, held);
      assert.deepEqual(await queue.enqueue([item('b')]), ['duplicate'], 'after it has ended');
      await time.advance(LIMITS.resultTtlMs);
      assert.deepEqual(await queue.enqueue([item('b')]), ['new'], 'past the window');
    });

    check(
      'the queue takes items up to its capacity, and more when some have left',
      async ({ queue }) => {
        assert.deepEqual(await queue.enqueue(items(3)), ['new', 'new', 'full']);
        assert.deepEqual(await queue.enqueue(items(2)), ['duplicate', 'duplicate'], 'a full queue knows its own');
        await claim(queue, 1);
        assert.deepEqual(await queue.enqueue(items(4)), ['duplicate', 'duplicate', 'new', 'full']);
        assert.equal(await queue.cancel('item-1'), 'cancelled');
        assert.deepEqual(await queue.enqueue(items(5)).then((all) => all.slice(3)), ['new', 'full']);
        await queue.configure({ ...LIMITS, capacity: 3 });
        assert.deepEqual(await queue.enqueue(items(6)).then((all) => all.slice(4)), ['new', 'full']);
      },
      { capacity: 2 },
    );

    check('the queue refuses an invalid id and stores nothing of that call', async ({ queue }) => {
      const hostile = [
        '',
        'a b',
        'a\0b',
        '../a',
        'ä',
        "a'b",
        'x'.repeat(129),
        '\ud800',
        undefined as never,
        7 as never,
      ];
      for (const id of hostile) {
        await assert.rejects(queue.enqueue([item('good'), item(id)]), { code: 'invalid_input' });
        assert.equal(await queue.result(id), null);
        assert.equal(await queue.cancel(id), 'unknown');
      }
      assert.equal((await queue.stats()).ready, 0);
      assert.deepEqual(await queue.enqueue([item('x'.repeat(128)), item('A.z_0:9-')]), ['new', 'new']);
    });

    check('payloads of any bytes and length come back unchanged', async ({ queue }) => {
      const all = [Buffer.alloc(0), Buffer.from([0, 255, 0]), Buffer.alloc(300_000, 7), Buffer.from('\0\ud800ü')];
      await queue.enqueue(all.map((bytes, index) => item(`i${index}`, { payload: { codec: CODEC.json, bytes } })));
      for (const { id, payload } of await claim(queue, 10)) {
        assert.deepEqual(Buffer.from(payload.bytes), all[Number(id.slice(1))]);
        assert.equal(payload.codec, CODEC.json);
      }
    });
  });

  describe(`${kind.name}: claiming`, () => {
    check('items are claimed by priority, then deadline, then first in first out', async ({ queue, time, traits }) => {
      const late = time.wall() + 5000;
      await queue.enqueue([item('last'), item('late', { deadline: late }), item('soon', { deadline: late - 1 })]);
      await queue.enqueue([item('urgent', { priority: 5 }), item('after'), item('patient', { priority: -1 })]);
      const between = traits.ordersByDeadline ? ['soon', 'late', 'last'] : ['last', 'late', 'soon'];
      assert.deepEqual(idsOf(await claim(queue, 2)), ['urgent', between[0]]);
      assert.deepEqual(idsOf(await claim(queue, 10)), [...between.slice(1), 'after', 'patient']);
      assert.deepEqual(await claim(queue, 10), []);
    });

    check('an item that is given back keeps its place', async ({ queue }) => {
      await queue.enqueue(items(4));
      const first = await claim(queue, 2);
      await queue.nack(first, { ...AGAIN, countAttempt: false });
      assert.deepEqual(idsOf(await claim(queue, 4)), ['item-0', 'item-1', 'item-2', 'item-3']);
    });

    check('a repeated token returns the claims made with it, and nothing else', async ({ queue }) => {
      await queue.enqueue(items(4));
      const first = await queue.claim({ max: 2, leaseMs: LEASE_MS, token: 'mine' });
      assert.deepEqual(await queue.claim({ max: 3, leaseMs: LEASE_MS, token: 'mine' }), first);
      assert.deepEqual(idsOf(await claim(queue, 4)), ['item-2', 'item-3']);
    });

    check('an expired item is claimed as expired, even during its delay', async ({ queue, time }) => {
      await queue.enqueue([item('a', { deadline: time.wall() + 100 }), item('b', { deadline: time.wall() + 200 })]);
      await queue.enqueue([item('c'), item('d', { deadline: time.wall() + 100 })]);
      const held = await queue.claim({ max: 1, leaseMs: LEASE_MS, token: 'a' });
      await queue.nack(held, { ...AGAIN, delayMs: 10_000 });
      await time.advance(150);
      const expired = await queue.claim({ max: 10, leaseMs: LEASE_MS, token: 'b', expired: true });
      assert.deepEqual(idsOf(expired), ['a', 'd']);
      assert.deepEqual(idsOf(await claim(queue, 10)), ['b', 'c']);
    });
  });

  describe(`${kind.name}: leases`, () => {
    check('an ended lease counts an attempt, and its item is claimed alone', async ({ queue, time }) => {
      await queue.enqueue(items(3));
      assert.equal((await claim(queue, 2)).length, 2);
      await time.advance(LEASE_MS);
      const [first, ...more] = await claim(queue, 10);
      assert.deepEqual([first?.attempt, first?.alone, more.length], [2, true, 0]);
      assert.deepEqual(await claim(queue, 10), [], 'nothing beside it');
      await endAll(queue, [first as NonNullable<typeof first>]);
      const [second] = await claim(queue, 10);
      assert.deepEqual([first?.id, second?.id].toSorted(), ['item-0', 'item-1']);
      await endAll(queue, [second as NonNullable<typeof second>]);
      assert.deepEqual(idsOf(await claim(queue, 10)), ['item-2']);
    });

    check('an item to run alone waits until the others have ended', async ({ queue }) => {
      await queue.enqueue(items(3));
      const [first, second] = await claim(queue, 2);
      await queue.nack([first as NonNullable<typeof first>], { ...AGAIN, alone: true });
      assert.deepEqual(await claim(queue, 10), []);
      await endAll(queue, [second as NonNullable<typeof second>]);
      assert.deepEqual(idsOf(await claim(queue, 10)), ['item-0']);
    });

    check('a lease continues if it is extended in time, and is lost afterwards', async ({ queue, time, traits }) => {
      await queue.enqueue(items(1));
      const held = await claim(queue, 1);
      await time.advance(LEASE_MS - traits.slackMs);
      assert.deepEqual(await queue.extend(held, LEASE_MS), [true]);
      await time.advance(LEASE_MS - traits.slackMs);
      assert.equal((await queue.stats()).leased, 1);
      await time.advance(traits.slackMs);
      assert.deepEqual(await queue.extend(held, LEASE_MS), [false]);
    });

    check('a jump of the time of day ends no lease and no delay', async ({ queue, time, traits }) => {
      await queue.enqueue(items(2));
      const [first, second] = await claim(queue, 2);
      await queue.nack([first as NonNullable<typeof first>], { ...AGAIN, delayMs: 500 });
      for (const jump of [3_600_000, -7_200_000]) {
        await time.jump(jump);
        const { leased, delayed } = await queue.stats();
        assert.deepEqual([leased, traits.delaysByTimeOfDay || delayed], [1, traits.delaysByTimeOfDay || 1]);
      }
      assert.deepEqual(await queue.extend([second as NonNullable<typeof second>], LEASE_MS), [true]);
    });

    check('a claimant that has lost its lease changes nothing about the item', async ({ queue, time }) => {
      await queue.enqueue(items(1));
      const late = await claim(queue, 1);
      await time.advance(LEASE_MS);
      const held = await claim(queue, 1);
      assert.deepEqual(await endAll(queue, late), [false]);
      assert.deepEqual(await queue.nack(late, AGAIN), ['lost']);
      assert.deepEqual(await queue.deadLetter(late, 'no'), [false]);
      assert.deepEqual(await queue.extend(late, LEASE_MS), [false]);
      assert.equal((await queue.result('item-0'))?.state, 'running');
      assert.deepEqual(await endAll(queue, held), [true]);
      assert.deepEqual(await endAll(queue, late), [false], 'also after its end');
    });
  });

  describe(`${kind.name}: ends`, () => {
    check('a repeated end with the same token gets the same answer', async ({ queue }) => {
      await queue.enqueue(items(3));
      const [a, b, c] = (await claim(queue, 3)).map((held) => [held] as const);
      assert.ok(a && b && c);
      for (const _ of [1, 2]) {
        assert.deepEqual(await endAll(queue, a), [true]);
        assert.deepEqual(await queue.nack(b, AGAIN), ['again']);
        assert.deepEqual(await queue.deadLetter(c, 'malformed'), [true]);
      }
      const { ready, dead, leased } = await queue.stats();
      assert.deepEqual([ready, dead, leased], [1, 1, 0]);
      assert.equal((await queue.result('item-1'))?.attempts, 1, 'counted once');
    });

    check('only counted attempts make a dead letter', async ({ queue }) => {
      await queue.enqueue(items(1));
      for (let times = 0; times < 10; times += 1) {
        const held = await claim(queue, 1);
        assert.equal(held[0]?.attempt, 1);
        assert.deepEqual(await queue.nack(held, { ...AGAIN, countAttempt: false }), ['again']);
      }
      assert.deepEqual(await queue.nack(await claim(queue, 1), AGAIN), ['again']);
      assert.deepEqual(await queue.nack(await claim(queue, 1), AGAIN), ['again']);
      assert.deepEqual(await queue.nack(await claim(queue, 1), { ...AGAIN, reason: 'third' }), ['dead']);
      assert.deepEqual(await claim(queue, 1), []);
      assert.deepEqual((await queue.stats()).deadLetters, [{ id: 'item-0', attempts: 3, reason: 'third' }]);
    });

    check('a redriven dead letter has all its attempts', async ({ queue }) => {
      await queue.enqueue(items(3));
      await queue.deadLetter(await claim(queue, 3), 'malformed');
      assert.equal(await queue.redrive(['item-1', 'item-7', "'"]), 1);
      const [again] = await claim(queue, 3);
      assert.deepEqual([again?.id, again?.attempt], ['item-1', 1]);
      assert.equal(await queue.redrive(null), 2);
      assert.equal(await queue.redrive(null), 0);
      assert.deepEqual(idsOf(await claim(queue, 3)), ['item-0', 'item-2']);
    });

    check('a delayed item waits for its delay', async ({ queue, time }) => {
      await queue.enqueue(items(1));
      await queue.nack(await claim(queue, 1), { ...AGAIN, delayMs: 100 });
      await time.advance(99);
      assert.deepEqual(await claim(queue, 1), []);
      assert.equal((await queue.stats()).delayed, 1);
      await time.advance(1);
      assert.equal((await claim(queue, 1)).length, 1);
    });
  });

  describe(`${kind.name}: asking`, () => testAsking(check));
}
