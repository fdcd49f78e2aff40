/** Frames come out of a stream of bytes as they went in, wherever the stream was cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StageTiming } from '../../src/core/model.ts';
import { FrameReader } from '../../src/wire/channel/channel.ts';
import { encodeFrame, type Frame } from '../../src/wire/frames/frames.ts';
import { itemLength } from '../../src/wire/frames/items.ts';
import { anyFrame, item, meaning } from './frame-values.ts';

function streamOf(frames: readonly Frame[]): Buffer {
  return Buffer.concat(frames.flatMap(encodeFrame));
}

/** The stream in pieces; every cut is a fraction of its length, so some pieces are empty. */
function pieces(stream: Buffer, cuts: readonly number[]): Buffer[] {
  const places = cuts.map((cut) => Math.floor(cut * stream.byteLength)).sort((a, b) => a - b);
  return [0, ...places].map((start, index) => stream.subarray(start, places[index] ?? stream.byteLength));
}

test('any frames, cut anywhere, arrive unchanged', () => {
  const cut = fc.double({ min: 0, max: 1, noNaN: true });
  fc.assert(
    fc.property(fc.array(anyFrame, { maxLength: 6 }), fc.array(cut, { maxLength: 12, size: 'max' }), (frames, cuts) => {
      const reader = new FrameReader();
      const read = pieces(streamOf(frames), cuts).flatMap((piece) => reader.push(piece));
      assert.deepStrictEqual(read.map(meaning), frames.map(meaning));
    }),
    { numRuns: 400 },
  );
});

test('frames come out the same if the caller reads into the rest of a large frame, and reuses its own buffer', () => {
  const large = item({ payload: { codec: 2, bytes: Buffer.alloc(300_000, 'large') } });
  const someLarge = fc.array(fc.oneof(anyFrame, fc.constant<Frame>({ type: 'submit', items: [large] })), {
    maxLength: 4,
  });
  const readLength = fc.integer({ min: 1, max: 150_000 });
  let direct = 0;
  fc.assert(
    fc.property(someLarge, fc.array(readLength, { minLength: 1, maxLength: 8 }), (frames, lengths) => {
      const reader = new FrameReader({ reused: true });
      const shared = Buffer.alloc(150_000);
      const stream = streamOf(frames);
      const read: Frame[] = [];
      for (let at = 0, turn = 0; at < stream.byteLength; turn += 1) {
        const { room } = reader;
        const into = room ?? shared;
        const count = stream.copy(into, 0, at, at + (lengths[turn % lengths.length] as number));
        read.push(...reader.push(into.subarray(0, count)));
        if (room) direct += 1;
        else shared.fill(0xee);
        at += count;
      }
      assert.deepStrictEqual(read.map(meaning), frames.map(meaning));
    }),
    { numRuns: 100 },
  );
  assert.ok(direct > 0);
});

test('the reader returns frames that arrive byte by byte as soon as they are complete', () => {
  const frames: Frame[] = [
    { type: 'batch', batch: 7, items: [item({ meta: Buffer.from('m') }), item({ id: 2 })] },
    { type: 'cancel', body: [1, 2, 3] },
    { type: 'submit', items: [] },
  ];
  const reader = new FrameReader();
  const read: Frame[] = [];
  const completedAt: number[] = [];
  for (const [index, byte] of streamOf(frames).entries()) {
    const found = reader.push(Buffer.from([byte]));
    read.push(...found);
    if (found.length > 0) completedAt.push(index + 1);
  }
  assert.deepStrictEqual(read.map(meaning), frames.map(meaning));
  let end = 0;
  assert.deepStrictEqual(
    completedAt,
    frames.map((frame) => (end += streamOf([frame]).byteLength)),
  );
});

test('the writer passes large payloads without a copy and copies small ones into the frame', () => {
  const large = Buffer.alloc(65_536, 1);
  const small = Buffer.alloc(65_535, 2);
  const frame: Frame = {
    type: 'submit',
    items: [
      item({ payload: { codec: 2, bytes: small } }),
      item({ payload: { codec: 2, bytes: large }, timings: [timing(1)] }),
      item({ payload: { codec: 2, bytes: Buffer.from('end') }, meta: Buffer.from('meta') }),
    ],
  };
  const parts = encodeFrame(frame);
  assert.ok(parts.includes(large), 'the large payload was copied');
  assert.ok(!parts.includes(small));
  assert.deepStrictEqual(new FrameReader().push(Buffer.concat(parts)).map(meaning), [meaning(frame)]);
});

function timing(stage: number): StageTiming {
  return { stage, waitMs: 0.5, batchMs: 1, runMs: 2.25, batchSize: 3, worker: 0 };
}

test('itemLength returns the bytes that an item adds to its frame', () => {
  fc.assert(
    fc.property(anyFrame, (frame) => {
      if (!('items' in frame)) return;
      const empty = streamOf([{ ...frame, items: [] } as Frame]).byteLength;
      const sum = frame.items.reduce(
        (total, one) =>
          total + itemLength(one, frame.type === 'submit' || frame.type === 'outcomes' ? 'routeRef' : null),
        0,
      );
      assert.equal(streamOf([frame]).byteLength, empty + sum);
    }),
  );
});

test('a close without a deadline stays without one', () => {
  const [back] = new FrameReader().push(streamOf([{ type: 'close', body: { deadline: Number.POSITIVE_INFINITY } }]));
  assert.deepStrictEqual(back, { type: 'close', body: { deadline: Number.POSITIVE_INFINITY } });
});

test('payloads are views of the received bytes, not copies', () => {
  const stream = streamOf([{ type: 'submit', items: [item({ payload: { codec: 2, bytes: Buffer.from('view') } })] }]);
  const [frame] = new FrameReader().push(stream);
  assert.ok(frame && 'items' in frame && frame.items[0]);
  assert.equal(frame.items[0].payload.bytes.buffer, stream.buffer);
});
