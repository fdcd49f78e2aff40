/** The waiting room of a durable gate: claims what the budget admits, and no item is lost whatever the store does. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Node } from 'node-red';
import { DEFAULT_LIMITS } from '../../src/config/compile.ts';
import { wallTime } from '../../src/core/clock.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { type StorePlace, storeMessage } from '../../src/gate/node-red/durable/durable-request.ts';
import type { OpenGate } from '../../src/gate/node-red/gate-request.ts';
import { MessageLeases } from '../../src/gate/node-red/message-leases.ts';
import type { QueueItem } from '../../src/gate/store/work-queue.ts';
import type { PipelineMessage } from '../../src/node-red/request/messages.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { idsOf, item, items, NO_SQLITE } from './bed.ts';
import { RoomBed } from './room-bed.ts';

const LOST_WORKER = { end: { kind: 'failed' }, error: new ModeletError('worker_lost', 'it died') } as const;

async function counts(bed: RoomBed): Promise<number[]> {
  const { ready, leased, delayed, dead } = await bed.queue.stats();
  return [ready + delayed, leased, dead];
}

function sized(id: string, size: number, more: Partial<QueueItem> = {}): QueueItem {
  return item(id, { payload: { codec: CODEC.bytes, bytes: Buffer.alloc(size) }, ...more });
}

describe('a durable waiting room', { skip: NO_SQLITE }, () => {
  test('claims items as the budget admits, and the next when one has ended', async (t) => {
    const bed = new RoomBed(t);
    await bed.store('a', 'b', 'c', 'd');
    assert.deepEqual(bed.ids, ['a', 'b']);
    assert.deepEqual(await counts(bed), [2, 2, 0], 'what may not go is not claimed');
    await bed.end('a');
    assert.deepEqual(bed.ids, ['a', 'b', 'c']);
    assert.equal(bed.gate.admission.inFlight, 2);
    for (const id of ['b', 'c', 'd']) await bed.end(id);
    assert.deepEqual(await counts(bed), [0, 0, 0]);
    assert.equal(bed.gate.admission.inFlight, 0);
  });

  test('claims nothing while the gate is closed, and goes on when it opens', async (t) => {
    const bed = new RoomBed(t);
    bed.gate.control('close');
    await bed.store('a', 'b');
    await bed.advance(1000);
    assert.deepEqual(await counts(bed), [2, 0, 0]);
    bed.gate.control('auto');
    await bed.settled();
    assert.deepEqual(bed.ids, ['a', 'b']);
  });

  test('an end reported twice counts once', async (t) => {
    const bed = new RoomBed(t);
    await bed.store('a', 'b', 'c', 'd');
    await bed.end('a');
    await bed.end('a');
    assert.deepEqual(bed.ids, ['a', 'b', 'c']);
    assert.equal(bed.gate.admission.inFlight, 2);
  });

  test('a refused item returns after its pause, and the refusal closes the gate', async (t) => {
    const bed = new RoomBed(t);
    await bed.store('a');
    await bed.end('a', { end: { kind: 'refused', retryAfterMs: 2000 } });
    await bed.advance(1900);
    assert.deepEqual(bed.ids, ['a']);
    await bed.advance(2000);
    assert.deepEqual(bed.ids, ['a', 'a']);
    assert.equal(bed.admitted[1]?.claim.attempt, 1);
  });

  test('after the death of its worker an item runs alone, and the others follow', async (t) => {
    const bed = new RoomBed(t, { maxAttempts: 3 });
    await bed.store('a', 'b');
    await bed.end('b', LOST_WORKER);
    await bed.store('c');
    assert.deepEqual(bed.ids, ['a', 'b'], 'nothing beside it');
    await bed.end('a');
    await bed.advance(300);
    assert.deepEqual(bed.ids, ['a', 'b', 'b'], 'it goes alone');
    await bed.end('b');
    assert.deepEqual(bed.ids, ['a', 'b', 'b', 'c']);
  });

  test('an item without a result within leaseMs runs again, alone, until it is a dead letter', async (t) => {
    const bed = new RoomBed(t, { leaseMs: 2000 });
    await bed.store('a', 'b');
    await bed.end('b');
    await bed.advance(2500);
    assert.deepEqual(bed.ids, ['a', 'b', 'a']);
    await bed.advance(2500);
    assert.deepEqual(await counts(bed), [0, 0, 1]);
    await bed.end('a');
    assert.equal(await bed.stateOf('a'), 'dead', 'too late');
    assert.equal(await bed.room.redrive(null), 1);
    await bed.settled();
    assert.deepEqual(bed.ids, ['a', 'b', 'a', 'a']);
  });

  test('an item whose lease ended while the store was slow gets a lease that counts', async (t) => {
    const bed = new RoomBed(t, { leaseMs: 2000, maxSys: '1' });
    bed.beforeClaim = () => bed.clock.advance(2500);
    await bed.store('a');
    bed.beforeClaim = () => {};
    assert.deepEqual(bed.ids, ['a']);
    assert.equal(bed.gate.admission.inFlight, 1);
    await bed.end('a');
    assert.deepEqual([bed.gate.admission.inFlight, await bed.stateOf('a')], [0, 'done']);
  });

  test('a room that closes gives back what it claims at that moment, and lets nothing go', async (t) => {
    const bed = new RoomBed(t);
    bed.gate.control('close');
    await bed.store('a', 'b');
    let answer = (): void => {};
    bed.answering = new Promise((resolve) => {
      answer = resolve;
    });
    bed.gate.control('auto');
    await bed.settled();
    assert.deepEqual(await counts(bed), [0, 2, 0]);
    const closed = bed.room.close();
    answer();
    await closed;
    await bed.settled();
    assert.deepEqual([bed.ids, await counts(bed)], [[], [2, 0, 0]]);
  });

  test('a message that the store cannot take ends the leases of earlier gates with its error', async (t) => {
    const [bed, leases] = [new RoomBed(t), new MessageLeases()];
    const ends: unknown[] = [];
    const store = async (payload: unknown): Promise<void> => {
      leases.hold('earlier', 'other gate', ({ end, error }) => ends.push([end.kind, error?.code]));
      const context = { whenRunning: () => {} };
      const place = { context, leases, room: bed.room, onDropped: assert.fail } as unknown as StorePlace;
      const deployed = { config: bed.config, limits: DEFAULT_LIMITS };
      const open = { gate: bed.gate, deployed, leases, count: () => {} } as unknown as OpenGate;
      const msg = { _msgid: 'm', payload, modelet: { leases: ['earlier'] } } as unknown as PipelineMessage;
      storeMessage(place, { id: 'gate' } as Node, open, msg, assert.fail);
      await bed.settled();
    };
    await store('taken');
    await store(Symbol('cannot be stored'));
    bed.failing = new ModeletError('store_unavailable', 'the disk is full');
    await store('not taken');
    assert.deepEqual(ends, [
      ['done', undefined],
      ['failed', 'invalid_input'],
      ['failed', 'store_unavailable'],
    ]);
  });

  test('a deploy with another leaseMs changes the time limit of items on their way', async (t) => {
    const bed = new RoomBed(t, { leaseMs: 60_000 });
    await bed.store('a');
    await bed.gate.reconfigure({ ...bed.config, leaseMs: 1000 }, bed.source);
    await bed.advance(1500);
    assert.deepEqual(bed.ids, ['a', 'a']);
  });

  test('the room extends the claim of an item that runs for long', async (t) => {
    const bed = new RoomBed(t);
    await bed.store('a');
    await bed.advance(200_000);
    assert.deepEqual(bed.ids, ['a']);
    await bed.end('a');
    assert.equal(await bed.stateOf('a'), 'done');
  });

  test('the room refuses an expired item, even while the gate is closed', async (t) => {
    const bed = new RoomBed(t);
    bed.gate.control('close');
    await bed.store(item('a', { deadline: bed.wall + 1000 }), 'b');
    await bed.advance(900);
    assert.deepEqual(bed.refused, []);
    await bed.advance(600);
    assert.deepEqual(bed.refused, [{ id: 'a', code: 'deadline_exceeded' }]);
    assert.equal(await bed.stateOf('a'), 'failed');
    assert.equal(await bed.stateOf('b'), 'pending');
  });

  test('flush admits the waiting items regardless of the budget, and drop refuses them', async (t) => {
    const bed = new RoomBed(t);
    bed.gate.control('close');
    await bed.store(...items(3, 'early'));
    await bed.room.flush();
    await bed.settled();
    assert.deepEqual(bed.ids, idsOf(items(3, 'early') as never));
    await bed.store(...items(3, 'late'));
    assert.equal(bed.admitted.length, 3, 'what came later waits');
    await bed.room.drop();
    assert.deepEqual(
      bed.refused.map(({ code }) => code),
      ['dropped', 'dropped', 'dropped'],
    );
    assert.deepEqual(await counts(bed), [0, 3, 0]);
  });

  describe('an item at the head, which the gate has no room for', () => {
    async function headOf(t: TestContext, head: Partial<QueueItem> = {}): Promise<RoomBed> {
      const bed = new RoomBed(t, { unit: 'bytes', maxSys: '100' });
      await bed.store(sized('a', 60));
      await bed.store(sized('head', 50, head), sized('c', 10));
      assert.deepEqual([bed.ids, await counts(bed)], [['a'], [1, 2, 0]]);
      return bed;
    }

    test('is flushed with the others', async (t) => {
      const bed = await headOf(t);
      await bed.room.flush();
      await bed.settled();
      assert.deepEqual(bed.ids, ['a', 'head', 'c']);
    });

    test('is dropped with the others', async (t) => {
      const bed = await headOf(t);
      await bed.room.drop();
      assert.deepEqual(bed.refused, [
        { id: 'head', code: 'dropped' },
        { id: 'c', code: 'dropped' },
      ]);
      await bed.end('a');
      assert.deepEqual([bed.ids, await counts(bed)], [['a'], [0, 0, 0]]);
    });

    test('is refused at its deadline', async (t) => {
      const bed = await headOf(t, { deadline: wallTime() + 60_000 });
      await bed.advance(50_000);
      assert.deepEqual(bed.refused, []);
      await bed.advance(10_000);
      assert.deepEqual(bed.refused, [{ id: 'head', code: 'deadline_exceeded' }]);
      assert.deepEqual(bed.ids, ['a', 'c'], 'the next one has room');
    });

    test('does not go when its claim was lost: another process may have it', async (t) => {
      const bed = await headOf(t);
      bed.gate.control('close');
      bed.failing = new Error('no extension comes through');
      await bed.advance(40_000);
      bed.failing = null;
      await bed.advance(20_000);
      bed.gate.control('auto');
      await bed.settled();
      const attempts = bed.admitted.map(({ claim: { id, attempt } }) => `${id} ${attempt}`);
      assert.equal(attempts.includes('head 1'), false, attempts.join());
    });
  });

  test('counted in bytes, an item that does not fit waits at the head and blocks those behind it', async (t) => {
    const bed = new RoomBed(t, { unit: 'bytes', maxSys: '100' });
    await bed.store(sized('a', 60), sized('b', 50), sized('c', 10), sized('d', 500));
    assert.deepEqual(bed.ids, ['a']);
    await bed.end('a');
    assert.deepEqual(bed.ids, ['a', 'b', 'c']);
    await bed.end('b');
    await bed.end('c');
    assert.deepEqual(bed.ids, ['a', 'b', 'c', 'd'], 'what fits nowhere goes alone');
    await bed.end('d');
    assert.deepEqual(await counts(bed), [0, 0, 0]);
  });

  test('the room reports an end until the store takes it', async (t) => {
    const bed = new RoomBed(t);
    await bed.store('a', 'b');
    bed.failing = new ModeletError('store_unavailable', 'the disk is full');
    await bed.end('a');
    await bed.end('b', { end: { kind: 'failed' }, error: new ModeletError('modelet_failed', 'no') });
    assert.equal(bed.gate.admission.inFlight, 0, 'what is behind the gate has ended');
    await assert.rejects(bed.room.store(item('c')), { code: 'store_unavailable' });
    await bed.advance(5000);
    bed.failing = null;
    await bed.advance(2000);
    assert.equal(await bed.stateOf('a'), 'done');
    assert.deepEqual(bed.ids, ['a', 'b', 'b'], 'and nothing was done twice');
    assert.ok(bed.troubles.includes('the disk is full'));
  });

  test('the room gives back running items on close without counting an attempt', async (t) => {
    const bed = new RoomBed(t);
    await bed.store('a', 'b', 'c');
    await bed.room.close();
    const stats = await bed.queue.stats();
    assert.deepEqual([stats.ready, stats.leased], [3, 0]);
    assert.equal((await bed.queue.result('a'))?.attempts, 0);
    await bed.end('a');
    assert.equal(await bed.stateOf('a'), 'pending', 'a late end has no say');
  });
});
