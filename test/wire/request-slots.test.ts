/** Large requests and their outcomes come out of slots as they went in, whatever is cancelled and whichever process dies. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import type { Payload } from '../../src/core/model.ts';
import { FrameReader, SocketChannel } from '../../src/wire/channel/channel.ts';
import { byteLengthOf, freeablePayload } from '../../src/wire/codec/chunks.ts';
import { encodeFrame, type Frame, SLOT_FROM } from '../../src/wire/frames/frames.ts';
import type { WireItem } from '../../src/wire/frames/items.ts';
import { EngineSlots } from '../../src/wire/slots/engine-slots.ts';
import { HeldBytes, type HeldPlace } from '../../src/wire/slots/held-bytes.ts';
import { ParentSlots } from '../../src/wire/slots/parent-slots.ts';
import type { SlotChannel } from '../../src/wire/slots/slot-channel.ts';
import { openSlotFile } from '../../src/wire/slots/slot-file.ts';
import { Slots } from '../../src/wire/slots/slots.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { within } from '../fixtures/processes.ts';
import { socketPair } from './ends.ts';
import { item } from './frame-values.ts';

const FOLDER = process.platform === 'linux' ? '/dev/shm' : '/tmp';
const { file } = openSlotFile(FOLDER);
const { file: answers } = openSlotFile(FOLDER);
after(() => {
  file.close();
  answers.close();
});

const STARTED: Frame = { type: 'report', body: { state: 'startup', slots: true } };

/** One way between two ends: what has been sent, and has not come. */
class Way {
  readonly #from: SlotChannel;
  readonly #to: SlotChannel;
  readonly #onFrame: (frame: Frame, bytes: number) => void;
  readonly #answer: (frame: Frame) => void;
  #sent: Buffer[] = [];

  constructor(
    from: SlotChannel,
    to: SlotChannel,
    onFrame: (frame: Frame, bytes: number) => void,
    answer: (frame: Frame) => void,
  ) {
    this.#from = from;
    this.#to = to;
    this.#onFrame = onFrame;
    this.#answer = answer;
  }

  send(frame: Frame): void {
    for (const given of this.#from.outgoing(frame)) this.#sent.push(Buffer.concat(encodeFrame(given)));
  }

  /** Lets so many frames come. */
  come(count: number = this.#sent.length): void {
    for (const bytes of this.#sent.splice(0, count)) {
      const [frame] = new FrameReader({ readSlot: this.#to.read.bind(this.#to) }).push(bytes);
      assert.ok(frame);
      const answer = this.#to.received(frame);
      if (answer) this.#answer(answer);
      this.#onFrame(frame, bytes.byteLength);
    }
  }
}

/** A server and its engine, of which each request has its number in all of its bytes, and each result another one. */
class Bed {
  readonly slots: Slots;
  /** The slots of the engine, for its workers. */
  #workers = new Slots(answers, 40 * SLOT_FROM, new FakeClock());
  /** What workers read, and whose. */
  #reads: { readonly place: HeldPlace; readonly request: WireItem; readonly length: number }[] = [];
  /** Bytes of outcomes that came in frames and not in slots. */
  inFrames = 0;
  readonly open: Map<number, WireItem> = new Map();
  /** What the engine has, and what the server has cancelled. */
  readonly running: Map<number, WireItem> = new Map();
  readonly #cancelled: Set<number> = new Set();
  #owner: ParentSlots;
  #submits: Way;
  #outcomes: Way;

  constructor(bytes: number) {
    this.slots = new Slots(file, bytes, new FakeClock());
    [this.#owner, this.#submits, this.#outcomes] = this.#started();
  }

  #started(): [ParentSlots, Way, Way] {
    const owner = new ParentSlots(this.slots, { onFull: () => {}, other: answers });
    owner.received(STARTED);
    const engine = new EngineSlots(
      () => {},
      (frame) => back.send(frame),
      { requestsFd: file.fd, answersFd: answers.fd },
    );
    const back: Way = new Way(
      engine,
      owner,
      (frame, bytes) => this.#answered(frame, bytes),
      (frame) => there.send(frame),
    );
    const there = new Way(
      owner,
      engine,
      (frame) => this.#received(frame),
      (frame) => back.send(frame),
    );
    return [owner, there, back];
  }

  submit(items: readonly WireItem[]): void {
    for (const one of items) this.open.set(one.id, one);
    this.#submits.send({ type: 'submit', items });
  }

  cancel(ids: readonly number[]): void {
    for (const id of ids) {
      this.open.delete(id);
      this.#cancelled.add(id);
    }
    this.#submits.send({ type: 'cancel', body: ids });
  }

  /** Answers some of the requests that the engine has. @param kept whether the results are still in their workers' slots */
  answer(count: number, length: number, kept = false): void {
    const done = [...this.running.values()].slice(0, count);
    for (const { id } of done) this.running.delete(id);
    const results = done.map((one) => (kept ? this.#kept(one, length) : resultOf(one, length)));
    if (done.length > 0) this.#outcomes.send({ type: 'outcomes', items: results });
  }

  #kept(request: WireItem, length: number): WireItem {
    const result = resultOf(request, length);
    const slot = length < SLOT_FROM ? null : this.#workers.take(length);
    if (!slot) return result;
    answers.write([result.payload.bytes], slot.at);
    const chunks = new HeldBytes({ slot, file: answers, at: slot.at }, length);
    slot.letGo();
    return { ...result, payload: freeablePayload(1, chunks) };
  }

  /** A worker begins to read a request. */
  read(which: number): void {
    const held = [...this.running.values()].filter(({ payload }) => placeOf(payload));
    const request = held[which % held.length];
    if (!request) return;
    const place = placeOf(request.payload) as HeldPlace;
    place.slot.hold();
    this.#reads.push({ place, request, length: byteLengthOf(request.payload) });
  }

  /** Workers have read their requests. */
  haveRead(count: number = this.#reads.length): void {
    for (const { place, request, length } of this.#reads.splice(0, count)) {
      const bytes = place.file.read(place.at, length);
      assert.ok(Buffer.alloc(length, request.id).equals(bytes), `the bytes of request ${request.id}, read by a worker`);
      place.slot.letGo();
    }
  }

  /** Everything that workers and requests have taken is free. */
  get isEmpty(): boolean {
    return this.slots.taken === 0 && this.#workers.taken === 0;
  }

  come(submits?: number, outcomes?: number): void {
    this.#submits.come(submits);
    this.#outcomes.come(outcomes);
  }

  /** The engine dies, and another one starts. */
  die(): void {
    this.#owner.end();
    assert.equal(this.slots.taken, 0);
    this.open.clear();
    this.running.clear();
    this.#reads = [];
    this.#workers = new Slots(answers, this.#workers.size, new FakeClock());
    [this.#owner, this.#submits, this.#outcomes] = this.#started();
  }

  #received(frame: Frame): void {
    if (frame.type === 'cancel') for (const id of frame.body) this.running.delete(id);
    if (frame.type !== 'submit') return;
    for (const one of frame.items) {
      const length = byteLengthOf(one.payload);
      const place = placeOf(one.payload);
      // Some stay where they are.
      const bytes = place && one.id % 3 > 0 ? place.file.read(place.at, length) : one.payload.bytes;
      assert.ok(Buffer.alloc(length, one.id).equals(bytes), `the bytes of request ${one.id}`);
      assert.deepEqual([one.routeRef, one.group], [one.id % 2, one.id + 1]);
      // The engine has seen the cancel of a request only after the request.
      this.running.set(one.id, one);
    }
  }

  #answered(frame: Frame, bytes: number): void {
    if (frame.type !== 'outcomes') return;
    this.inFrames += bytes;
    for (const { id, payload } of frame.items) {
      const sent = this.open.get(id);
      if (!sent) assert.ok(this.#cancelled.has(id), `request ${id} is answered twice`);
      this.open.delete(id);
      assert.ok(Buffer.alloc(payload.bytes.byteLength, 255 - id).equals(payload.bytes), `the bytes of result ${id}`);
    }
  }
}

const placeOf = ({ chunks }: Payload): HeldPlace | null => (chunks instanceof HeldBytes ? chunks.place : null);

const requestOf = (id: number, length: number): WireItem =>
  item({ id, routeRef: id % 2, group: id + 1, payload: { codec: 1, bytes: Buffer.alloc(length, id) } });

const resultOf = (request: WireItem, length: number): WireItem => ({
  ...request,
  payload: { codec: 1, bytes: Buffer.alloc(length, 255 - request.id) },
});

const sizes = fc.oneof(
  fc.constant(100),
  fc.integer({ min: SLOT_FROM - 9, max: SLOT_FROM + 9 }),
  fc.constant(3 * SLOT_FROM + 5),
);
const move = fc.oneof(
  fc.record({ tag: fc.constant('submit' as const), lengths: fc.array(sizes, { minLength: 1, maxLength: 4 }) }),
  fc.record({ tag: fc.constant('come' as const), submits: fc.nat(4), outcomes: fc.nat(4) }),
  fc.record({
    tag: fc.constant('answer' as const),
    count: fc.integer({ min: 1, max: 3 }),
    length: sizes,
    kept: fc.boolean(),
  }),
  fc.record({ tag: fc.constant('read' as const), which: fc.nat() }),
  fc.record({ tag: fc.constant('have read' as const), count: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ tag: fc.constant('cancel' as const), which: fc.nat() }),
  fc.record({ tag: fc.constant('die' as const) }),
);

test('requests and outcomes arrive as they are, whatever is cancelled or dies, and no slot is lost', () => {
  fc.assert(
    fc.property(fc.array(move, { maxLength: 60, size: 'max' }), (moves) => {
      const bed = new Bed(12 * SLOT_FROM);
      let next = 0;
      for (const one of moves) {
        if (one.tag === 'submit') {
          // Two digits of a number would be two bytes.
          const items = one.lengths.slice(0, 250 - next).map((length) => requestOf(next++, length));
          if (items.length > 0) bed.submit(items);
        } else if (one.tag === 'come') bed.come(one.submits, one.outcomes);
        else if (one.tag === 'answer') bed.answer(one.count, one.length, one.kept);
        else if (one.tag === 'read') bed.read(one.which);
        else if (one.tag === 'have read') bed.haveRead(one.count);
        else if (one.tag === 'die') bed.die();
        else {
          const ids = [...bed.open.keys()];
          if (ids.length > 0) bed.cancel([ids[one.which % ids.length] as number]);
        }
      }
      bed.come();
      bed.answer(bed.running.size, 10);
      bed.come();
      bed.haveRead();
      bed.come();
      assert.equal(bed.open.size, 0, 'a request has no outcome');
      assert.ok(bed.isEmpty, 'a slot is lost');
      assert.deepEqual(bed.slots.free, [{ at: 0, bytes: bed.slots.size }]);
    }),
    { numRuns: 150 },
  );
});

test('a result has room after another large result of its route, also if its request is small', () => {
  const bed = new Bed(64 * SLOT_FROM);
  const bytesOfAnswer = (id: number): number => {
    const before = bed.inFrames;
    bed.submit([requestOf(id, 10)]);
    bed.come();
    bed.answer(1, 2 * SLOT_FROM);
    bed.come();
    return bed.inFrames - before;
  };
  const [first = 0, other = 0, second = 0] = [bytesOfAnswer(0), bytesOfAnswer(1), bytesOfAnswer(2)];
  assert.ok(first > 2 * SLOT_FROM && other > 2 * SLOT_FROM && second < 500, `${[first, other, second]}`);
  assert.equal(bed.slots.taken, 0);
});

test('a request stays in its slot while a worker reads it, also if it has an outcome or is cancelled', () => {
  for (const ends of ['outcome', 'cancel'] as const) {
    const bed = new Bed(64 * SLOT_FROM);
    bed.submit([requestOf(1, 2 * SLOT_FROM)]);
    bed.come();
    bed.read(0);
    if (ends === 'outcome') bed.answer(1, 2 * SLOT_FROM);
    else bed.cancel([1]);
    bed.come();
    assert.equal(bed.slots.taken, 1);
    bed.haveRead();
    bed.come();
    assert.ok(bed.isEmpty);
  }
});

test('an outcome that is in the slot of a worker stays there until it has been read', () => {
  const bed = new Bed(64 * SLOT_FROM);
  bed.submit([requestOf(1, 2 * SLOT_FROM), requestOf(2, 10)]);
  bed.come();
  bed.answer(2, 2 * SLOT_FROM, true);
  assert.ok(!bed.isEmpty);
  bed.come();
  // What has been read goes back by another frame.
  bed.come();
  assert.ok(bed.inFrames < 500 && bed.isEmpty, `${bed.inFrames} bytes in frames`);
});

test('requests keep their order, and each with a slot has a separate frame', () => {
  const owner = new ParentSlots(new Slots(file, 64 * SLOT_FROM, new FakeClock()), { onFull: () => {} });
  owner.received(STARTED);
  const lengths = [10, 10, SLOT_FROM, SLOT_FROM, 10, 2 * SLOT_FROM, 10, 10];
  const items = lengths.map((length, id) => requestOf(id, length));
  const frames = owner.outgoing({ type: 'submit', items });
  const ids = frames.map((frame) => ('items' in frame ? frame.items.map(({ id }) => id) : []));
  assert.deepEqual(ids, [[0, 1], [2], [3], [4], [5], [6, 7]]);
});

test('a very large request that has a slot overtakes those that travel in pieces, and can be cancelled', async () => {
  const slots = new Slots(file, 64 * SLOT_FROM, new FakeClock());
  const owner = new ParentSlots(slots, { onFull: () => {} });
  owner.received(STARTED);
  const [near, far] = await socketPair();
  const came: string[] = [];
  let onFreed = (): void => {};
  const freed = new Promise<void>((resolve) => {
    onFreed = resolve;
  });
  const server = new SocketChannel(
    near,
    { onFrame: ({ type }) => (type === 'freed' ? onFreed() : undefined), onClose: () => {} },
    { slots: owner },
  );
  const engine: SocketChannel = new SocketChannel(
    far,
    { onFrame: (frame) => came.push(`${frame.type} ${'items' in frame ? frame.items[0]?.id : ''}`), onClose: () => {} },
    {
      slots: new EngineSlots(
        () => {},
        (frame) => engine.send(frame),
        { requestsFd: file.fd },
      ),
    },
  );
  // More than a slot may have.
  server.send({ type: 'submit', items: [requestOf(0, 20 * 1024 * 1024)] });
  server.send({ type: 'submit', items: [requestOf(1, 1024 * 1024)] });
  assert.equal(slots.taken, 1);
  server.send({ type: 'cancel', body: [1] });
  await within(freed, 'the slot');
  assert.equal(slots.taken, 0);
  assert.deepEqual(came.slice(0, 2), ['submit 1', 'cancel ']);
  server.close();
  engine.close();
});
