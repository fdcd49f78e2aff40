/** Results go from stage to stage in their slots, also if they are read, dropped or lost on the way. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { FrameReader } from '../../src/wire/channel/channel.ts';
import { encodeFrame, type Frame, SLOT_FROM, type WireItem } from '../../src/wire/frames/frames.ts';
import { HeldBytes } from '../../src/wire/slots/held-bytes.ts';
import { ParentSlots } from '../../src/wire/slots/parent-slots.ts';
import type { SlotChannel } from '../../src/wire/slots/slot-channel.ts';
import { openSlotFile } from '../../src/wire/slots/slot-file.ts';
import { Slots } from '../../src/wire/slots/slots.ts';
import { WorkerSlots } from '../../src/wire/slots/worker-slots.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { item } from './frame-values.ts';

const { file } = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp');
after(() => file.close());

/** Returns what comes of a frame at the other end, and how many bytes were in it. */
function pass<T extends Frame>(frame: T, from: SlotChannel, to: SlotChannel): { frame: T; bytes: number } {
  const stream = Buffer.concat(from.outgoing(frame).flatMap(encodeFrame));
  const [back] = new FrameReader({ readSlot: to.read.bind(to) }).push(stream);
  assert.ok(back);
  to.received(back);
  return { frame: back as T, bytes: stream.byteLength };
}

/** A worker that adds 1 to each byte of its inputs, which all are the same. */
class Worker {
  readonly #slots: Slots;
  #engine: ParentSlots;
  #own: WorkerSlots;
  #batch = 0;

  constructor(slots: Slots) {
    this.#slots = slots;
    [this.#engine, this.#own] = this.#started();
  }

  #started(): [ParentSlots, WorkerSlots] {
    const engine = new ParentSlots(this.#slots, { onFull: () => {}, keepsResults: true });
    engine.received({ type: 'report', body: { state: 'startup', slots: true } });
    return [engine, new WorkerSlots(() => {}, file.fd)];
  }

  /** @param dies how often it writes half of its results and is killed before it answers. */
  run(inputs: readonly WireItem[], length: number, dies = 0): { items: readonly WireItem[]; bytes: number } {
    this.#batch += 1;
    const batch: Frame = { type: 'batch', batch: this.#batch, items: inputs };
    const came = pass(batch, this.#engine, this.#own);
    const items = came.frame.items.map(({ id, payload }) => {
      const [first] = payload.bytes;
      assert.ok(first !== undefined && payload.bytes.every((byte) => byte === first), 'other bytes than were sent');
      return item({ id, payload: { codec: 1, bytes: Buffer.alloc(length, first + 1) } });
    });
    const reply: Frame = { type: 'reply', batch: this.#batch, runMs: 1, runs: 1, items };
    if (dies > 0) {
      this.#own.outgoing({ ...reply, items: items.map((one) => ({ ...one, payload: garbage(length) })) });
      this.#engine.end();
      [this.#engine, this.#own] = this.#started();
      return this.run(inputs, length, dies - 1);
    }
    const back = pass(reply, this.#own, this.#engine);
    // As the router does when a result takes the place of an input.
    for (const { payload } of inputs) payload.chunks?.free();
    return { items: back.frame.items, bytes: came.bytes + back.bytes };
  }
}

const garbage = (length: number): WireItem['payload'] => ({ codec: 1, bytes: Buffer.alloc(length, 99) });
const lengthOf = fc.constantFrom(100, SLOT_FROM, 2 * SLOT_FROM + 3);
const READS = ['none', 'none', 'bytes', 'share', 'drop'] as const;

test('results are the same at the end of a chain, whether each is read, shared, dropped or run again on the way', () => {
  const stage = fc.record({
    length: lengthOf,
    dies: fc.constantFrom(0, 0, 0, 1, 2),
    reads: fc.array(fc.constantFrom(...READS), { minLength: 3, maxLength: 3 }),
  });
  const chain = fc.record({ first: lengthOf, stages: fc.array(stage, { minLength: 1, maxLength: 5 }) });
  fc.assert(
    fc.property(fc.array(chain, { maxLength: 6 }), fc.constantFrom(4, 40), (chains, room) => {
      const slots = new Slots(file, room * SLOT_FROM, new FakeClock());
      const workers = [new Worker(slots), new Worker(slots)] as const;
      const copies: { readonly payload: WireItem['payload']; readonly value: number }[] = [];
      for (const { first, stages } of chains) {
        let items: readonly WireItem[] = [0, 60, 120].map((fill, id) =>
          item({ id, payload: { codec: 1, bytes: Buffer.alloc(first, fill) } }),
        );
        for (const [index, { length, dies, reads }] of stages.entries()) {
          ({ items } = (workers[index % 2] as Worker).run(items, length, dies));
          for (const [at, { payload }] of items.entries()) {
            if (reads[at] === 'bytes') void payload.bytes;
            if (reads[at] === 'share') {
              payload.chunks?.share();
              copies.push({ payload, value: ((items[at] as WireItem).id * 60 + index + 1) % 256 });
            }
            if (reads[at] === 'drop') payload.chunks?.free();
          }
          items = items.filter((_, at) => reads[at] !== 'drop');
          if (items.length === 0) break;
        }
        for (const { id, payload } of items) {
          const expected = (id * 60 + stages.length) % 256;
          assert.ok(payload.bytes.every((byte) => byte === expected));
          payload.chunks?.free();
        }
        assert.equal(slots.taken, 0, 'a slot is left behind');
      }
      for (const { payload, value } of copies) assert.ok(payload.bytes.every((byte) => byte === value));
    }),
    { numRuns: 60 },
  );
});

test('a result that the engine has not read is in no frame to the next stage, and is not written again', () => {
  const slots = new Slots(file, 100 * SLOT_FROM, new FakeClock());
  const [one, two] = [new Worker(slots), new Worker(slots)];
  const input = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(2 * SLOT_FROM, 1) } });
  const { items } = one.run([input], 2 * SLOT_FROM);
  const { chunks } = items[0]?.payload ?? {};
  assert.ok(chunks instanceof HeldBytes);
  const { at } = chunks.place ?? {};
  const lane = new ParentSlots(slots, { onFull: () => {}, keepsResults: true });
  lane.received({ type: 'report', body: { state: 'startup', slots: true } });
  const [sent] = lane.outgoing({ type: 'batch', batch: 7, items }) as [Extract<Frame, { type: 'batch' }>];
  assert.deepEqual([sent.places?.get(items[0] as WireItem), sent.room], [at, null]);
  assert.equal(slots.taken, 1, 'it was written to a second slot');
  // The slot stays until the worker has answered, also when its request is cancelled.
  chunks.free();
  assert.equal(slots.taken, 1);
  lane.end();
  assert.equal(slots.taken, 0);
  const again = two.run([item({ id: 2, payload: { codec: 1, bytes: Buffer.alloc(SLOT_FROM, 5) } })], SLOT_FROM);
  assert.ok(again.items[0]?.payload.bytes.every((byte) => byte === 6));
});

test('results leave their slots at once while half of the memory is taken', () => {
  const slots = new Slots(file, 4 * SLOT_FROM, new FakeClock());
  const taken = slots.take(2 * SLOT_FROM);
  const input = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(SLOT_FROM, 1) } });
  const { items } = new Worker(slots).run([input], SLOT_FROM);
  assert.ok(!(items[0]?.payload.chunks instanceof HeldBytes));
  assert.equal(slots.taken, 1);
  taken?.letGo();
});

test('a slot is given back when V8 has forgotten a result that was not read', async () => {
  const slots = new Slots(file, 40 * SLOT_FROM, new FakeClock());
  (() => {
    const input = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(SLOT_FROM, 1) } });
    new Worker(slots).run([input], SLOT_FROM);
  })();
  assert.equal(slots.taken, 1);
  while (slots.taken > 0) {
    globalThis.gc?.();
    // Without `--expose-gc`, garbage makes V8 collect.
    for (let round = 0; round < 20; round += 1) Buffer.alloc(1_000_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
});

test('a worker that says it has written a result, and has not, has sent a malformed frame', () => {
  const { file: short } = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp');
  const lane = new ParentSlots(new Slots(short, 40 * SLOT_FROM, new FakeClock()), {
    onFull: () => {},
    keepsResults: true,
  });
  lane.received({ type: 'report', body: { state: 'startup', slots: true } });
  const large = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(SLOT_FROM, 1) } });
  const [sent] = lane.outgoing({ type: 'batch', batch: 1, items: [large] }) as [Extract<Frame, { type: 'batch' }>];
  short.empty();
  assert.throws(() => lane.read(1, sent.room?.at ?? 0, SLOT_FROM), { code: 'protocol_error' });
  short.close();
});
