/** Bytes that are no frames end in protocol_error and in nothing else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ModeletError } from '../../src/core/errors.ts';
import { FrameReader } from '../../src/wire/channel/channel.ts';
import { encodeFrame, type Frame, LONGEST_FRAME, WIRE_VERSION } from '../../src/wire/frames/frames.ts';
import { anyFrame, item } from './frame-values.ts';

function streamOf(frame: Frame): Buffer {
  return Buffer.concat(encodeFrame(frame));
}

function push(...chunks: readonly Buffer[]): Frame[] {
  const reader = new FrameReader();
  return chunks.flatMap((chunk) => reader.push(chunk));
}

/** Reads to the end or to the one error there may be; anything else thrown is a failure. */
function readsOrRefuses(bytes: Buffer): void {
  try {
    push(bytes);
  } catch (thrown) {
    assert.ok(thrown instanceof ModeletError, `threw ${String(thrown)}`);
    assert.equal(thrown.code, 'protocol_error');
  }
}

const ITEMS: Frame = {
  type: 'reply',
  batch: 3,
  runMs: 1,
  runs: 1,
  items: [
    item({
      meta: Buffer.from('meta'),
      timings: [{ stage: 1, waitMs: 0, batchMs: 0, runMs: 1, batchSize: 1, worker: 0 }],
    }),
    item({ id: 2, payload: { codec: 1, bytes: Buffer.from('[1,2,3]') } }),
  ],
};
const RECORDS_AT = 32;
const RECORD = 48;

/** The frame above with one field overwritten. */
function changed(change: (frame: Buffer) => void): Buffer {
  const frame = streamOf(ITEMS);
  change(frame);
  return frame;
}

const MALFORMED: readonly (readonly [string, () => Buffer, RegExp])[] = [
  ['a length shorter than the head', () => changed((f) => f.writeUInt32LE(24, 0)), /length of 24/],
  ['a length that is no multiple of 8', () => changed((f) => f.writeUInt32LE(f.byteLength - 1, 0)), /length of/],
  ['a length beyond the limit', () => changed((f) => f.writeUInt32LE(LONGEST_FRAME + 8, 0)), /length of/],
  ['another version', () => changed((f) => f.writeUInt8(1, 4)), /version 1 instead of 6/],
  ['an unknown type', () => changed((f) => f.writeUInt8(99, 5)), /unknown type 99/],
  ['more items than fit', () => changed((f) => f.writeUInt32LE(1000, 8)), /1000 items do not fit/],
  ['the largest number of items', () => changed((f) => f.writeUInt32LE(0xffffffff, 8)), /items do not fit/],
  ['fewer items than there are', () => changed((f) => f.writeUInt32LE(1, 8)), /malformed/],
  ['more timings than there are', () => changed((f) => f.writeUInt16LE(65_535, RECORDS_AT + 26)), /beyond the frame/],
  ['a payload that is too long', () => changed((f) => f.writeUInt32LE(1000, RECORDS_AT + 28)), /beyond the frame/],
  ['a payload that is too short', () => changed((f) => f.writeUInt32LE(0, RECORDS_AT + RECORD + 28)), /malformed/],
  ['the longest payload', () => changed((f) => f.writeUInt32LE(0xffffffff, RECORDS_AT + 28)), /beyond the frame/],
  ['the longest meta', () => changed((f) => f.writeUInt32LE(0xffffffff, RECORDS_AT + 32)), /beyond the frame/],
  [
    'a meta whose length has the sign bit',
    () => changed((f) => f.writeUInt32LE(0x80000000, RECORDS_AT + 32)),
    /malformed/,
  ],
  ['a control frame with too long a JSON', () => control('{}', 1000), /length is not that of its JSON/],
  ['a control frame with no JSON', () => control('{"level"'), /JSON cannot be read/],
  ['a control frame with an empty JSON', () => control(''), /JSON cannot be read/],
];

function control(json: string, length: number = json.length): Buffer {
  const frame = Buffer.alloc(32 + Math.ceil(json.length / 8) * 8);
  frame.writeUInt32LE(frame.byteLength, 0);
  frame.writeUInt8(WIRE_VERSION, 4);
  frame.writeUInt8(7, 5);
  frame.writeUInt32LE(length, 12);
  frame.write(json, 32);
  return frame;
}

for (const [name, make, message] of MALFORMED) {
  test(`${name} is a protocol error`, () => {
    assert.throws(
      () => push(make()),
      (error) => error instanceof ModeletError && error.code === 'protocol_error' && message.test(error.message),
    );
  });
}

test('random bytes always decode to frames or a protocol error', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400, size: 'max' }), (bytes) => readsOrRefuses(Buffer.from(bytes))),
    { numRuns: 1000 },
  );
});

test('a random body after a plausible head always decodes to a frame or a protocol error', () => {
  const body = fc.uint8Array({ minLength: 0, maxLength: 300, size: 'max' });
  fc.assert(
    fc.property(fc.nat({ max: 15 }), fc.nat({ max: 6 }), fc.nat({ max: 300 }), body, (type, items, json, rest) => {
      const frame = Buffer.alloc(32 + Math.ceil(rest.byteLength / 8) * 8);
      frame.set(rest, 32);
      frame.writeUInt32LE(frame.byteLength, 0);
      frame.writeUInt8(WIRE_VERSION, 4);
      frame.writeUInt8(type, 5);
      frame.writeUInt32LE(items, 8);
      frame.writeUInt32LE(json, 12);
      readsOrRefuses(frame);
    }),
    { numRuns: 1500 },
  );
});

test('a frame with any 32 bits overwritten always decodes to a frame or a protocol error', () => {
  const value = fc.oneof(fc.constantFrom(0, 1, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff), fc.nat());
  fc.assert(
    fc.property(anyFrame, fc.nat(), value, fc.nat(), (frame, position, overwrite, more) => {
      const bytes = streamOf(frame);
      if (bytes.byteLength > 10_000) return;
      for (const at of [position, more]) bytes.writeUInt32LE(overwrite >>> 0, at % (bytes.byteLength - 3));
      readsOrRefuses(bytes);
    }),
    { numRuns: 1500 },
  );
});

test('the reader waits for the rest of an incomplete frame', () => {
  const whole = streamOf(ITEMS);
  for (let length = 0; length < whole.byteLength; length += 1) {
    assert.deepEqual(push(whole.subarray(0, length)), []);
  }
});

test('the reader refuses an excessive announced length at once', () => {
  const head = Buffer.alloc(32);
  head.writeUInt32LE(64 * 1024, 0);
  assert.throws(() => new FrameReader({ longest: 1024 }).push(head), { code: 'protocol_error' });
});

test('the writer refuses a frame longer than the limit', () => {
  const bytes = Buffer.alloc(0);
  Object.defineProperty(bytes, 'byteLength', { value: LONGEST_FRAME });
  const frame: Frame = { type: 'submit', items: [item({ payload: { codec: 2, bytes } })] };
  assert.throws(() => encodeFrame(frame), { code: 'protocol_error', message: /too long/ });
});
