/** Large payloads hold up nothing else on their channel: neither small requests nor the signs of life. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { FrameReader } from '../../src/wire/channel/channel.ts';
import { encodeFrame, type Frame, HEAD, pieceHead } from '../../src/wire/frames/frames.ts';
import { closed, End, ends, socketPair } from './ends.ts';
import { item, meaning } from './frame-values.ts';

const MEGABYTE = 1024 * 1024;

function bytesOf(length: number): { codec: number; bytes: Buffer } {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; at += 997) bytes[at] = at;
  return { codec: 2, bytes };
}

const submit = (id: number, length: number): Frame => ({
  type: 'submit',
  items: [item({ id, payload: bytesOf(length) })],
});

/** The frames that arrived, in order: ids of items, types of all others. */
const order = ({ frames }: End): (number | string)[] =>
  frames.flatMap<number | string>((frame) => ('items' in frame ? frame.items.map(({ id }) => id) : [frame.type]));

test('small frames overtake large ones and keep their order', async () => {
  const { near, far } = await ends();
  for (const id of [1, 2, 3]) near.channel.send(submit(id, 20 * MEGABYTE));
  for (const id of [11, 12, 13]) near.channel.send(submit(id, 100));
  near.channel.send({ type: 'ping', body: null });
  await far.until((end) => end.frames.length === 7);
  assert.deepEqual(order(far), [11, 12, 13, 'ping', 1, 2, 3]);
  near.channel.close();
  await far.until(closed);
});

test('a large frame arrives unchanged, whatever overtakes it', async () => {
  const { near, far } = await ends();
  const sent = [submit(1, 3 * MEGABYTE + 5), submit(2, 256 * 1024), submit(3, 256 * 1024 - 1), submit(4, MEGABYTE)];
  for (const frame of sent) near.channel.send(frame);
  await far.until((end) => end.frames.length === sent.length);
  const byId = far.frames.map(meaning).toSorted((a, b) => idOf(a) - idOf(b));
  assert.deepStrictEqual(byId, sent.map(meaning));
  near.channel.close();
  await far.until(closed);
});

const idOf = (frame: unknown): number => (frame as { items: { id: number }[] }).items[0]?.id ?? 0;

test('frames about one request keep their order, and the end arrives last', async () => {
  const { near, far } = await ends();
  const frame = (type: 'taps' | 'parts' | 'outcomes', id: number, length = 10): Frame => ({
    type,
    items: [item({ id, payload: bytesOf(length) })],
  });
  near.channel.send(frame('parts', 1));
  near.channel.send(frame('parts', 1, 2 * MEGABYTE));
  near.channel.send(frame('parts', 1));
  near.channel.send({ type: 'outcomes', items: [item({ id: 1 }), item({ id: 2 })] });
  near.channel.send({ type: 'report', body: { state: 'shutdown' } });
  near.channel.send({ type: 'pong', body: null });
  await far.until((end) => end.frames.length === 7);
  assert.deepEqual(order(far), [1, 2, 'pong', 1, 1, 1, 'report']);
  near.channel.close();
  await far.until(closed);
});

test('the lane does not send a frame that was cancelled before it began to leave', async () => {
  const { near, far } = await ends();
  for (const id of [1, 2, 3]) near.channel.send(submit(id, 4 * MEGABYTE));
  assert.deepEqual(
    near.channel.waiting.map(({ id }) => id),
    [1, 2, 3],
  );
  near.channel.send({ type: 'cancel', body: [1, 2, 99] });
  near.channel.close();
  await far.until(closed);
  assert.deepEqual(
    far.frames.map((frame) => ('items' in frame ? frame.items[0]?.id : frame.body)),
    [[99], 1, [1], 3],
    'the first had begun, and its cancellation follows it',
  );
});

test('flushed waits for large frames too, and the last of them leaves before the end', async () => {
  const { near, far } = await ends();
  near.channel.send(submit(1, 8 * MEGABYTE));
  near.channel.send(submit(2, 8 * MEGABYTE));
  assert.equal(near.channel.waitingBytes, 16 * MEGABYTE);
  await near.channel.flushed();
  assert.deepEqual([near.channel.waitingBytes, near.channel.bufferedBytes], [0, 0]);
  near.channel.send(submit(3, 8 * MEGABYTE));
  near.channel.close();
  await far.until(closed);
  assert.deepEqual(order(far), [1, 2, 3]);
});

test('the other side counts as moving only while it takes or sends bytes', async () => {
  const [socket, reader] = await socketPair();
  const { channel } = new End(socket);
  reader.pause();
  assert.equal(channel.hasMoved(), false);
  channel.send({ type: 'ping', body: null });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(channel.hasMoved(), false, 'the kernel took it, although no process reads it');
  for (const id of [1, 2]) channel.send(submit(id, 32 * MEGABYTE));
  // Until the kernel takes no more.
  let left = -1;
  while (left !== channel.bytes.sent - channel.bufferedBytes) {
    left = channel.bytes.sent - channel.bufferedBytes;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  channel.hasMoved();
  assert.equal(channel.hasMoved(), false, 'no process reads');
  reader.resume();
  await once(reader, 'data');
  const before = channel.waitingBytes;
  while (channel.waitingBytes === before) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(channel.hasMoved(), true, 'it makes room');
  await channel.flushed();
  channel.hasMoved();
  reader.write(Buffer.concat(encodeFrame({ type: 'pong', body: null })));
  while (channel.bytes.received === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([channel.hasMoved(), channel.hasMoved()], [true, false]);
  reader.destroy();
});

test('the lane refuses pieces that do not fit together', () => {
  const piece = (length: number, total: number): Buffer =>
    Buffer.concat([pieceHead(HEAD + length, total), Buffer.alloc(length)]);
  const broken = {
    'longer than their frame': [piece(64, 64 - 8)],
    'of different frames': [piece(32, 640), piece(32, 648)],
    'of a frame that is too long': [piece(32, 2 ** 31)],
    'of no length': [piece(32, Number.NaN)],
    empty: [piece(0, 64)],
    'of a frame that says another length': [piece(64, 64)],
  };
  for (const [how, pieces] of Object.entries(broken)) {
    assert.throws(() => new FrameReader().push(Buffer.concat(pieces)), { code: 'protocol_error' }, how);
  }
});
