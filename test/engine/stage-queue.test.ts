/** A stage's queue against plain arrays: order, removal, expiry, age, and putting back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Item, MOVING, RUNNING } from '../../src/runtime/engine/stage/item.ts';
import { StageQueue } from '../../src/runtime/engine/stage/stage-queue.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { ids, NEVER, queued } from './queued.ts';

type Step =
  | { readonly do: 'push'; readonly priority: number; readonly ttl: number; readonly group: number }
  | { readonly do: 'take'; readonly count: number; readonly held: number }
  | { readonly do: 'remove'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'replace'; readonly priority: number; readonly group: number }
  | { readonly do: 'sweepLate'; readonly turnaroundMs: number }
  | { readonly do: 'putBack' | 'sweepExpired' | 'sweepOlder' | 'drain' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(fc.integer({ min: -1, max: 2 }), fc.constantFrom(0, 3, 8, 60, NEVER), fc.nat({ max: 2 }))
      .map(([priority, ttl, group]): Step => ({ do: 'push', priority, ttl, group })),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.nat({ max: 5 }), fc.nat({ max: 3 }))
      .map(([count, held]): Step => ({ do: 'take', count, held })),
  },
  { weight: 2, arbitrary: fc.nat({ max: 40 }).map((which): Step => ({ do: 'remove', which })) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.integer({ min: -1, max: 2 }), fc.nat({ max: 2 }))
      .map(([priority, group]): Step => ({ do: 'replace', priority, group })),
  },
  { weight: 2, arbitrary: fc.nat({ max: 5 }).map((ms): Step => ({ do: 'advance', ms })) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(0, 2, 3, 50).map((turnaroundMs): Step => ({ do: 'sweepLate', turnaroundMs })),
  },
  { weight: 1, arbitrary: fc.constantFrom<Step>({ do: 'putBack' }, { do: 'sweepExpired' }, { do: 'sweepOlder' }) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'drain' }) },
);

class Model {
  readonly queue = new StageQueue();
  /** In the order of leaving. */
  expected: Item[] = [];
  readonly all: Item[] = [];
  /** Batches taken and not put back, the last one last. */
  readonly taken: Item[][] = [];
  now = 0;
  newestAt = 0;

  run(what: Step): void {
    switch (what.do) {
      case 'push':
        this.#push(queued(this.all.length, this.now, { ...what, ...this.#payload(), deadline: this.now + what.ttl }));
        break;
      case 'take':
        this.#take(what.count, (one) => one.id % 4 !== what.held);
        break;
      case 'remove':
        this.#remove(this.all[what.which % Math.max(1, this.all.length)]);
        break;
      case 'replace':
        this.#replace(queued(this.all.length, this.now, { ...what, ...this.#payload() }));
        break;
      case 'advance':
        this.now += what.ms;
        break;
      case 'putBack':
        this.#putBack(this.taken.pop() ?? []);
        break;
      case 'sweepLate':
        this.#leave(this.queue.sweepLate(this.now, what.turnaroundMs), this.#late(what.turnaroundMs));
        break;
      case 'sweepExpired':
        this.#leave(this.queue.sweepExpired(this.now), (one) => one.deadline <= this.now);
        break;
      case 'sweepOlder':
        this.#leave(this.queue.sweepOlder(this.now - 4), (one) => one.arrivedAt < this.now - 4);
        break;
      case 'drain':
        this.#leave(this.queue.drain(), () => true);
    }
    this.#check();
  }

  #push(one: Item): void {
    this.all.push(one);
    this.queue.push(one);
    this.newestAt = this.now;
    const place = this.expected.findIndex((other) => other.priority < one.priority);
    this.expected.splice(place < 0 ? this.expected.length : place, 0, one);
  }

  /** Payloads differ in size. */
  #payload(): Pick<Item, 'payload'> {
    return { payload: { codec: CODEC.bytes, bytes: new Uint8Array(this.all.length) } };
  }

  #take(count: number, mayLeave: (one: Item) => boolean): void {
    const wanted = this.expected.filter(mayLeave).slice(0, count);
    const taken = this.queue.take(count, mayLeave);
    assert.deepEqual(ids(taken), ids(wanted));
    for (const one of taken) one.state = RUNNING;
    this.expected = this.expected.filter((one) => !wanted.includes(one));
    if (taken.length > 0) this.taken.push(taken);
  }

  #remove(one: Item | undefined): void {
    if (!one) return;
    assert.equal(this.queue.remove(one), this.expected.includes(one));
    this.expected = this.expected.filter((other) => other !== one);
  }

  /** The only one of its group gives its place; for any other the new one goes to the end. */
  #replace(one: Item): void {
    const victim = this.#victim(one.group);
    if (!victim) return;
    this.all.push(one);
    this.queue.replace(victim, one);
    this.newestAt = this.now;
    const place = this.expected.indexOf(victim);
    const inGroup = this.expected.filter((other) => other.group === one.group);
    const inPlace =
      one.group !== 0 && victim.priority === one.priority && inGroup.length === 1 && inGroup[0] === victim;
    if (inPlace) {
      this.expected[place] = one;
      return;
    }
    this.expected.splice(place, 1);
    const end = this.expected.findIndex((other) => other.priority < one.priority);
    this.expected.splice(end < 0 ? this.expected.length : end, 0, one);
  }

  #putBack(batch: readonly Item[]): void {
    this.queue.putBack(batch);
    for (const one of batch.toReversed()) {
      const place = this.expected.findIndex((other) => other.priority <= one.priority);
      this.expected.splice(place < 0 ? this.expected.length : place, 0, one);
    }
  }

  /** Tells late items. Beside items that are not late, those count as late, too, that would keep less than a twentieth of their time. */
  #late(turnaroundMs: number): (one: Item) => boolean {
    const { now } = this;
    const isLate = ({ deadline, arrivedAt }: Item): boolean => {
      const whole = deadline - arrivedAt;
      return deadline !== NEVER && deadline - now - Math.min(turnaroundMs, whole / 2) <= whole / 20;
    };
    const all = this.expected.every(isLate);
    return (one) => one.deadline <= now || (!all && isLate(one));
  }

  #leave(found: readonly Item[], which: (one: Item) => boolean): void {
    assert.deepEqual(ids(found), ids(this.expected.filter(which)));
    for (const one of found) assert.equal(one.state, MOVING);
    this.expected = this.expected.filter((one) => !which(one));
  }

  #check(): void {
    const { queue, expected } = this;
    assert.equal(queue.length, expected.length);
    assert.equal(queue.newestAt, this.newestAt);
    assert.equal(
      queue.bytes,
      expected.reduce((sum, { payload }) => sum + payload.bytes.byteLength, 0),
    );
    for (const one of this.all) assert.equal(one.state.tag === 'queued', expected.includes(one));
    assert.equal(queue.oldestAt, expected.length === 0 ? 0 : Math.min(...expected.map((one) => one.arrivedAt)));
    for (const group of [0, 1, 2]) assert.equal(queue.victim(group), this.#victim(group));
  }

  #victim(group: number): Item | undefined {
    const rising = [...this.expected].sort((a, b) => a.priority - b.priority);
    const lowest = rising.filter((one) => one.priority === rising[0]?.priority);
    const oldest = lowest.sort((a, b) => a.arrivedAt - b.arrivedAt)[0];
    return rising.find((one) => one.group === group) ?? oldest;
  }
}

test('a stage queue behaves like plain arrays under any sequence of operations', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const model = new Model();
      for (const each of steps) model.run(each);
    }),
    { numRuns: 600 },
  );
});

test('no expired item can be taken after a sweep, not even a returned one', () => {
  const queue = new StageQueue();
  for (let id = 0; id < 10; id += 1) queue.push(queued(id, 0, { deadline: id % 2 === 0 ? 5 : 50, priority: id % 3 }));
  const first = queue.take(3, () => true);
  queue.putBack(first);
  assert.deepEqual(ids(queue.sweepExpired(4)), []);
  assert.equal(queue.sweepExpired(5).length, 5);
  assert.ok(queue.take(100, () => true).every((one) => one.deadline > 5));
});

test('an item that was put back stands before items that came meanwhile', () => {
  const queue = new StageQueue();
  for (const id of [1, 2, 3, 4]) queue.push(queued(id, id));
  const batch = queue.take(3, () => true);
  queue.push(queued(5, 5));
  queue.push(queued(6, 6, { priority: 1 }));
  queue.putBack(batch);
  assert.deepEqual(ids(queue.drain()), [6, 1, 2, 3, 4, 5]);
});

test('a batch ends before its payloads exceed a frame, but always has one item', () => {
  const large = (id: number, megabytes: number): Item => {
    const bytes = Buffer.alloc(0);
    Object.defineProperty(bytes, 'byteLength', { value: megabytes * 1024 * 1024 });
    return queued(id, id, { payload: { codec: 2, bytes } });
  };
  const queue = new StageQueue();
  for (const [id, megabytes] of [300, 100, 100, 56, 1].entries()) queue.push(large(id, megabytes));
  assert.deepEqual(ids(queue.take(10, () => true)), [0]);
  assert.deepEqual(ids(queue.take(10, () => true)), [1, 2, 3]);
  assert.deepEqual(ids(queue.take(10, () => true)), [4]);
});

test('an item that replaces an older one does not hide still older ones', () => {
  const queue = new StageQueue();
  const [first, second, newer] = [queued(1, 0, { group: 1 }), queued(2, 1, { group: 2 }), queued(3, 9, { group: 1 })];
  queue.push(first as Item);
  queue.push(second as Item);
  queue.replace(first as Item, newer as Item);
  assert.equal(queue.oldestAt, 1);
  assert.equal(queue.victim(7)?.id, 2);
  assert.deepEqual(ids(queue.sweepOlder(5)), [2]);
});

test('items of one group stay in the order in which they came', () => {
  const queue = new StageQueue();
  for (const id of [1, 2]) queue.push(queued(id, id, { group: 1 }));
  queue.replace(queue.victim(1) as Item, queued(3, 3, { group: 1 }));
  assert.deepEqual(ids(queue.drain()), [2, 3]);
});

test('the queue does not remove an item that it never held', () => {
  const queue = new StageQueue();
  assert.equal(queue.remove(queued(1, 1)), false);
  assert.equal(queue.length, 0);
});

test('very many priorities overflow no stack', () => {
  const queue = new StageQueue();
  for (let id = 0; id < 3000; id += 1) queue.push(queued(id, id, { priority: id }));
  assert.equal(queue.oldestAt, 0);
  assert.equal(queue.drain()[0]?.id, 2999);
});

test('an item that evicts one of its group takes its place; any other goes to the end', () => {
  const queue = new StageQueue();
  const [a1, b1, a2, c1] = [
    queued(1, 0, { group: 1 }),
    queued(2, 1, { group: 2 }),
    queued(3, 2, { group: 1 }),
    queued(4, 3, { group: 3 }),
  ] as [Item, Item, Item, Item];
  queue.push(a1);
  queue.push(b1);
  queue.replace(a1, a2);
  assert.deepEqual([queue.length, a1.state], [2, MOVING]);
  queue.replace(a2, c1);
  assert.deepEqual(ids(queue.take(2, () => true)), [2, 4]);

  queue.push(a1);
  queue.push(b1);
  queue.replace(a1, a2);
  assert.deepEqual(ids(queue.take(2, () => true)), [3, 2]);
});
