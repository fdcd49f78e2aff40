/** Large payloads come out of slots as they went in, and each slot is one batch's until it is given back. */
import assert from 'node:assert/strict';
import { openSync } from 'node:fs';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { FrameReader, SocketChannel } from '../../src/wire/channel/channel.ts';
import { encodeFrame, type Frame, SLOT_FROM } from '../../src/wire/frames/frames.ts';
import type { WireItem } from '../../src/wire/frames/items.ts';
import { ParentSlots } from '../../src/wire/slots/parent-slots.ts';
import { SharedSlots } from '../../src/wire/slots/shared-slots.ts';
import type { SlotChannel } from '../../src/wire/slots/slot-channel.ts';
import { openSlotFile, SlotFile } from '../../src/wire/slots/slot-file.ts';
import { type SharedSlot, SLOT_TRANSITIONS, type SlotState, Slots } from '../../src/wire/slots/slots.ts';
import { WorkerSlots } from '../../src/wire/slots/worker-slots.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { socketPair } from './ends.ts';
import { item } from './frame-values.ts';

const PAGE = 4096;
const { file } = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp');
after(() => file.close());

const STARTED: Frame = { type: 'report', body: { state: 'startup', slots: true } };

const slotsOf = (bytes: number, clock = new FakeClock()): Slots => new Slots(file, bytes, clock);
const whole = (bytes: number): unknown[] => [{ at: 0, bytes }];

test('slots never share memory, and all of it is free when all have been given back', () => {
  const size = 64 * PAGE;
  const move = fc.record({ bytes: fc.integer({ min: 1, max: 9 * PAGE }), gives: fc.boolean(), which: fc.nat() });
  fc.assert(
    fc.property(fc.array(move, { maxLength: 120 }), (moves) => {
      const slots = slotsOf(size);
      const taken: SharedSlot[] = [];
      for (const { bytes, gives, which } of moves) {
        if (gives && taken.length > 0) assert.ok(taken.splice(which % taken.length, 1)[0]?.enter('freed'));
        const slot = gives ? null : slots.take(bytes);
        if (slot) taken.push(slot);
        const parts = [...taken, ...slots.free].toSorted((a, b) => a.at - b.at);
        let end = 0;
        for (const part of parts) {
          assert.equal(part.at, end, 'a gap, or two slots at one place');
          end += part.bytes;
        }
        assert.equal(end, size);
        assert.equal(slots.taken, taken.length);
      }
      for (const slot of taken) slot.enter('freed');
      assert.deepEqual(slots.free, whole(size));
    }),
  );
});

test('a slot moves as the table says, and is given back once', () => {
  const states = Object.keys(SLOT_TRANSITIONS) as SlotState[];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...states)), (moves) => {
      const slots = slotsOf(PAGE);
      const slot = slots.take(1) as SharedSlot;
      for (const next of moves) {
        const [before, allowed] = [slot.state, SLOT_TRANSITIONS[slot.state].includes(next)];
        assert.equal(slot.enter(next), allowed);
        assert.equal(slot.state, allowed ? next : before);
        assert.equal(slots.taken, slot.state === 'freed' ? 0 : 1);
      }
    }),
  );
});

function started(slots: Slots): ParentSlots {
  const engine = new ParentSlots(slots, { onFull: () => {} });
  engine.received(STARTED);
  return engine;
}

test('a worker that does not know slots gets its payloads in frames', () => {
  const large = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(SLOT_FROM) } });
  const batch: Frame = { type: 'batch', batch: 1, items: [large] };
  assert.deepEqual(new ParentSlots(slotsOf(64 * PAGE), { onFull: () => {} }).outgoing(batch), [batch]);
});

/** Sends a frame from one end to the other; returns it, and the bytes that were in it. */
function pass(frame: Frame, from: SlotChannel, to: SlotChannel): { frame: Frame; bytes: number } {
  const stream = Buffer.concat(from.outgoing(frame).flatMap(encodeFrame));
  const [back] = new FrameReader({ readSlot: to.read.bind(to) }).push(stream);
  assert.ok(back);
  to.received(back);
  return { frame: back, bytes: stream.byteLength };
}

const contents = (frame: Frame): unknown[] =>
  ('items' in frame ? frame.items : []).map(({ id, payload }: WireItem) => [id, Buffer.from(payload.bytes)]);

const sizes = fc.array(
  fc.oneof(fc.nat(200), fc.integer({ min: SLOT_FROM - 9, max: SLOT_FROM + 9 }), fc.constant(3 * SLOT_FROM + 5)),
  { minLength: 1, maxLength: 5 },
);

test('batches and replies arrive as they are, whatever has room, and no process leaves a slot behind', () => {
  const batch = fc.record({ inputs: sizes, results: sizes, end: fc.constantFrom('reply', 'later', 'death') });
  let inFrames = 0;
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 12 }), (batches) => {
      const slots = slotsOf(8 * SLOT_FROM);
      let engine = started(slots);
      let worker = new WorkerSlots(() => {}, file.fd);
      let waiting: Frame[] = [];
      const itemsOf = (lengths: readonly number[], fill: number): WireItem[] =>
        lengths.map((length, id) => item({ id, payload: { codec: 1, bytes: Buffer.alloc(length, fill + id) } }));
      const answer = (reply: Frame): void => {
        const came = pass(reply, worker, engine);
        assert.deepEqual(contents(came.frame), contents(reply));
      };
      for (const [number, { inputs, results, end }] of batches.entries()) {
        const sent: Frame = { type: 'batch', batch: number, items: itemsOf(inputs, number) };
        const came = pass(sent, engine, worker);
        assert.deepEqual(contents(came.frame), contents(sent));
        if (came.bytes > SLOT_FROM) inFrames += 1;
        waiting.push({ type: 'reply', batch: number, runMs: 1, runs: 1, items: itemsOf(results, 100 + number) });
        if (end === 'death') {
          engine.end();
          engine = started(slots);
          worker = new WorkerSlots(() => {}, file.fd);
          waiting = [];
        }
        if (end === 'reply') for (const reply of waiting.splice(0)) answer(reply);
      }
      for (const reply of waiting) answer(reply);
      assert.equal(slots.taken, 0);
      assert.deepEqual(slots.free, whole(8 * SLOT_FROM));
    }),
    { numRuns: 20 },
  );
  assert.ok(inFrames > 0, 'the slots were never full');
});

test('a result that is larger than its input has room after another large result', () => {
  const engine = started(slotsOf(1024 * PAGE));
  const worker = new WorkerSlots(() => {}, file.fd);
  const lengths = [1, 2].map((batch) => {
    pass({ type: 'batch', batch, items: [item({ id: 1 })] }, engine, worker);
    const result = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(2 * SLOT_FROM, batch) } });
    return pass({ type: 'reply', batch, runMs: 1, runs: 1, items: [result] }, worker, engine).bytes;
  });
  assert.ok((lengths[0] as number) > SLOT_FROM && (lengths[1] as number) < 200, String(lengths));
});

test('a result goes into the slot of its batch while a part of another result is on its way', async () => {
  const [engine, worker] = [started(slotsOf(1024 * PAGE)), new WorkerSlots(() => {}, file.fd)];
  const large = (bytes: number) => [item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(bytes, 7) } })];
  pass({ type: 'batch', batch: 1, items: large(2 * SLOT_FROM) }, engine, worker);
  const [near, far] = await socketPair();
  const nothing = { onFrame: () => {}, onClose: () => {} };
  const sending = new SocketChannel(near, nothing, { slots: worker });
  const came = await new Promise<Frame>((resolve) => {
    const onFrame = (frame: Frame): void => (frame.type === 'reply' ? resolve(frame) : undefined);
    new SocketChannel(far, { ...nothing, onFrame }, { slots: engine });
    sending.send({ type: 'parts', items: large(1024 * 1024) });
    sending.send({ type: 'reply', batch: 1, runMs: 1, runs: 1, items: large(2 * SLOT_FROM) });
  });
  sending.close();
  const { sent } = sending.bytes;
  assert.ok(sent < 1024 * 1024 + SLOT_FROM, `${sent} bytes in frames`);
  assert.deepEqual(contents(came), [[1, Buffer.alloc(2 * SLOT_FROM, 7)]]);
});

test('a payload outside of the slot of its batch is malformed', () => {
  const engine = started(slotsOf(64 * PAGE));
  const large = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(SLOT_FROM) } });
  const [sent] = engine.outgoing({ type: 'batch', batch: 1, items: [large] });
  const { room } = sent as Extract<Frame, { type: 'batch' }>;
  assert.ok(room);
  for (const [batch, at, length] of [
    [2, room.at, 8],
    [1, room.at + room.bytes - 8, 16],
    [1, room.at - 8, 8],
  ] as const) {
    assert.throws(() => engine.read(batch, at, length), { code: 'protocol_error' });
  }
});

test('without shared memory, or when it is full, payloads travel in frames, and the log says so once', () => {
  const large = item({ id: 1, payload: { codec: 1, bytes: Buffer.alloc(2 * SLOT_FROM) } });
  const batch: Frame = { type: 'batch', batch: 1, items: [large] };
  const lines: string[] = [];
  const shared = (open: typeof openSlotFile): SharedSlots =>
    new SharedSlots(2 ** 30, new FakeClock(), ({ level, message }) => lines.push(`${level} ${message}`), open);
  const missing = shared(() => openSlotFile('/no/such/folder'));
  assert.deepEqual([missing.lane(), missing.lane()], [null, null]);
  assert.match(
    lines.splice(0).join(),
    /^info there is no shared memory \(ENOENT[^)]*\): large payloads travel[^,]*, which/,
  );
  // No room, and a write that fails for another reason.
  const fds = process.platform === 'linux' ? [openSync('/dev/full', 'r+'), openSync('/dev/null', 'r')] : [];
  const failing = fds.map((fd) => ({ file: new SlotFile(fd), bytes: 2 ** 20 }));
  for (const slots of [{ file, bytes: SLOT_FROM }, ...failing]) {
    const small = shared(() => slots);
    for (const lane of [small.lane(), small.lane()]) {
      lane?.received(STARTED);
      assert.deepEqual(lane?.outgoing(batch), [batch]);
      assert.deepEqual(lane?.outgoing(batch), [batch]);
    }
    assert.match(
      lines.splice(0).join(),
      /^warn the \d MB of shared memory are full: [^,]*, which costs more while they are$/,
    );
  }
  for (const one of failing) one.file.close();
});

test('the memory goes back to the system when no slot has been taken for a while', () => {
  const clock = new FakeClock();
  const slots = slotsOf(64 * PAGE, clock);
  const slot = slots.take(PAGE) as SharedSlot;
  file.write([Buffer.alloc(PAGE, 1)], slot.at);
  clock.advance(60_000);
  assert.equal(file.read(slot.at, PAGE)[0], 1, 'it was taken back from a batch');
  slot.enter('freed');
  clock.advance(60_000);
  assert.throws(() => file.read(slot.at, 1), /end at/);
});

test('when the memory is closed, nothing touches it any more', () => {
  const clock = new FakeClock();
  const { file: own } = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp');
  const slots = new Slots(own, 64 * PAGE, clock);
  slots.take(PAGE)?.enter('freed');
  slots.close();
  // Another file may have the same descriptor by now.
  const next = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp').file;
  next.write([Buffer.alloc(PAGE, 1)], 0);
  clock.advance(60_000);
  own.empty();
  assert.equal(next.read(0, PAGE)[0], 1);
  next.close();
});
