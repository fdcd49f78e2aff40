/** A body that arrives in chunks is the same payload as in one, and is not joined on its way to a worker. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { after, test } from 'node:test';
import fc from 'fast-check';
import type { Payload } from '../../src/core/model.ts';
import { readBody } from '../../src/http/body.ts';
import { FrameReader } from '../../src/wire/channel/channel.ts';
import { byteLengthOf, Chunks, payloadOf } from '../../src/wire/codec/chunks.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { encodeFrame, type Frame } from '../../src/wire/frames/frames.ts';
import { ParentSlots } from '../../src/wire/slots/parent-slots.ts';
import { openSlotFile } from '../../src/wire/slots/slot-file.ts';
import { Slots } from '../../src/wire/slots/slots.ts';
import { WorkerSlots } from '../../src/wire/slots/worker-slots.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { item } from '../wire/frame-values.ts';

const { file } = openSlotFile(process.platform === 'linux' ? '/dev/shm' : '/tmp');
after(() => file.close());

/** Bytes that differ from place to place. */
const bytesOf = (length: number): Buffer =>
  Buffer.from(Uint8Array.from({ length }, (_, at) => (at * 7 + (at >> 8)) & 255));

function cut(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  let at = 0;
  for (const length of lengths) {
    chunks.push(bytes.subarray(at, at + length));
    at += length;
  }
  return [...chunks, bytes.subarray(at)].filter(({ length }) => length > 0);
}

function bodyOf(chunks: readonly Buffer[]): Promise<Chunks> {
  return new Promise((onBody, onMalformed) => {
    const request = new PassThrough({ highWaterMark: 2 ** 30 }) as unknown as IncomingMessage & PassThrough;
    const onTooLarge = (): void => onMalformed(new Error('too large'));
    readBody(request, { coding: 'identity', length: null, most: 2 ** 30 }, { onBody, onTooLarge, onMalformed });
    for (const chunk of chunks) request.write(chunk);
    request.end();
  });
}

const lengths = fc.array(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 40_000 })), {
  maxLength: 80,
  size: 'max',
});

test('a body is read as it was sent, however it was cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(200_000), lengths, async (length, cuts) => {
      const sent = bytesOf(length);
      const body = await bodyOf(cut(sent, cuts));
      assert.equal(body.length, length);
      assert.ok(Buffer.concat(body.list).equals(sent));
      assert.ok(body.bytes.equals(sent));
    }),
    { numRuns: 60 },
  );
});

test('many small chunks are joined, and large ones are kept as they are', async () => {
  const small = await bodyOf(Array.from({ length: 6400 }, () => Buffer.from('x')));
  assert.equal(small.length, 6400);
  assert.ok(small.list.length <= 100, `${small.list.length} chunks`);
  const large = [bytesOf(40_000), Buffer.from('between'), bytesOf(50_000)];
  const { list } = await bodyOf(large);
  assert.deepEqual(
    list.map((chunk) => large.indexOf(chunk)),
    [0, 1, 2],
  );
});

/** Whether memory can be freed before V8 does it. */
const canFree = 'transfer' in ArrayBuffer.prototype;
const READERS: readonly [string, (chunks: Chunks) => unknown][] = [
  ['a socket may keep them', ({ list }) => list],
  ['they are joined', ({ bytes }) => bytes],
  ['a reader is to come', (chunks) => chunks.share()],
];

test('the memory of chunks is freed, unless a reader may have kept it or others use the same', () => {
  const made = (): Buffer[] => [Buffer.alloc(70_000, 1), Buffer.alloc(20, 2), Buffer.alloc(90_000, 3).subarray(5)];
  const lengths = (buffers: readonly Buffer[]): number[] => buffers.map(({ length }) => length);
  const sole = made();
  const chunks = new Chunks(sole);
  assert.deepEqual(lengths(chunks.lent), [70_000, 20, 89_995]);
  chunks.free();
  chunks.free();
  assert.deepEqual(lengths(sole), canFree ? [0, 0, 89_995] : [70_000, 20, 89_995]);
  assert.equal(chunks.length, 160_015);
  for (const read of [() => chunks.lent, () => chunks.list, () => chunks.bytes])
    assert.throws(read, /the memory of these bytes has been freed/);
  for (const [why, use] of READERS) {
    const buffers = made();
    const shared = new Chunks(buffers);
    use(shared);
    shared.free();
    assert.deepEqual(lengths(buffers), [70_000, 20, 89_995], why);
    assert.equal(shared.bytes.length, 160_015, why);
  }
});

test('a body that another listener has seen is not freed', async () => {
  const request = new PassThrough() as unknown as IncomingMessage & PassThrough;
  const seen: Buffer[] = [];
  request.on('data', (chunk: Buffer) => seen.push(chunk));
  const body = await new Promise<Chunks>((onBody, onMalformed) => {
    const onTooLarge = (): void => onMalformed(new Error('too large'));
    readBody(request, { coding: 'identity', length: null, most: 2 ** 30 }, { onBody, onTooLarge, onMalformed });
    request.end(Buffer.alloc(50_000, 7));
  });
  body.free();
  assert.ok(Buffer.concat(seen).equals(Buffer.alloc(50_000, 7)));
});

const PASSED: readonly [string, (frame: Frame) => Frame | undefined][] = [
  ['a socket', (frame) => new FrameReader().push(Buffer.concat(encodeFrame(frame)))[0]],
  [
    'a slot',
    (frame) => {
      const engine = new ParentSlots(new Slots(file, 2 ** 24, new FakeClock()), { onFull: () => {} });
      engine.received({ type: 'report', body: { state: 'startup', slots: true } });
      const worker = new WorkerSlots(() => {}, file.fd);
      const sent = Buffer.concat(engine.outgoing(frame).flatMap(encodeFrame));
      assert.ok(sent.length < 10_000, `${sent.length} bytes beside the slot`);
      return new FrameReader({ readSlot: worker.read.bind(worker) }).push(sent)[0];
    },
  ],
];
for (const [way, pass] of PASSED)
  test(`a payload in chunks passes ${way} without being joined`, () => {
    const chunks = new Chunks([bytesOf(70_000), bytesOf(16_001), bytesOf(65_536)]);
    const payload = payloadOf(CODEC.bytes, chunks);
    assert.equal(byteLengthOf(payload), 151_537);
    const frame: Frame = { type: 'batch', batch: 1, items: [item({ id: 1, payload }), item({ id: 2, payload })] };
    const came = pass(frame);
    assert.equal(chunks.lent.length, 3, 'they are joined');
    assert.ok(came && 'items' in came);
    const read = came.items.map((one): Payload => one.payload);
    assert.deepEqual(
      read.map(({ codec, bytes }) => codec === CODEC.bytes && Buffer.compare(payload.bytes, bytes) === 0),
      [true, true],
    );
    assert.equal(chunks.lent.length, 1, 'each look would join them again');
  });
