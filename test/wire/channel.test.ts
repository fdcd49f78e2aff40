/** A channel over a real socket: frames both ways, garbage, back-pressure, and the end. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { SocketChannel } from '../../src/wire/channel/channel.ts';
import { encodeFrame, type Frame } from '../../src/wire/frames/frames.ts';
import { closed, End, ends, socketPair } from './ends.ts';
import { item, meaning } from './frame-values.ts';

test('frames travel both ways, in order', async () => {
  const { near, far } = await ends();
  const sent: Frame[] = Array.from({ length: 100 }, (_, number) => ({
    type: 'submit',
    items: [item({ id: number, payload: { codec: 2, bytes: Buffer.alloc(number * 1500, number) } })],
  }));
  for (const frame of sent) near.channel.send(frame);
  far.channel.send({ type: 'cancel', body: [7] });
  await far.until((end) => end.frames.length === sent.length);
  await near.until((end) => end.frames.length === 1);
  assert.deepStrictEqual(far.frames.map(meaning), sent.map(meaning));
  assert.deepStrictEqual(near.frames, [{ type: 'cancel', body: [7] }]);
  near.channel.close();
  await far.until(closed);
});

test('frames sent before close arrive, then both ends close without an error', async () => {
  const { near, far } = await ends();
  const payload = { codec: 2, bytes: Buffer.alloc(8 * 1024 * 1024, 1) };
  near.channel.send({ type: 'submit', items: [item({ payload })] });
  near.channel.close();
  near.channel.close();
  await far.until(closed);
  await near.until(closed);
  assert.equal(far.frames.length, 1);
  assert.deepStrictEqual([near.closes, far.closes], [[null], [null]]);
});

test('send does nothing after close, before and after the end', async () => {
  const { near, far } = await ends();
  near.channel.close();
  near.channel.send({ type: 'cancel', body: [1] });
  await near.channel.flushed();
  await near.until(closed);
  near.channel.send({ type: 'cancel', body: [2] });
  await near.channel.flushed();
  await far.until(closed);
  assert.deepStrictEqual([near.closes, far.closes, far.frames], [[null], [null], []]);
});

test('bytes that are not frames close the channel once with protocol_error', async () => {
  const [raw, socket] = await socketPair();
  const end = new End(socket);
  raw.on('error', () => {});
  raw.write(Buffer.alloc(64, 0xff));
  raw.write(Buffer.alloc(64, 0xff));
  await end.until(closed);
  raw.destroy();
  await once(raw, 'close');
  assert.equal(end.closes.length, 1);
  assert.equal((end.closes[0] as { code?: unknown } | null)?.code, 'protocol_error');
  assert.ok(socket.destroyed);
});

test('a sudden end of the other side closes the channel once', async () => {
  const { near, far, sockets } = await ends();
  sockets[1].resetAndDestroy();
  await near.until(closed);
  await far.until(closed);
  assert.equal(near.closes.length, 1);
  assert.equal(far.closes.length, 1);
});

test('flushed resolves when the other side has made room for all that was sent before', async () => {
  const [socket, reader] = await socketPair();
  const end = new End(socket);
  reader.pause();
  const bytes = Buffer.alloc(32 * 1024 * 1024);
  end.channel.send({ type: 'submit', items: [item({ payload: { codec: 2, bytes } })] });
  assert.ok(end.channel.bufferedBytes > 0, 'the kernel took 32 MiB at once: no back-pressure to test');
  let flushed = false;
  const waiting = end.channel.flushed().then(() => {
    flushed = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(flushed, false);
  reader.resume();
  await waiting;
  assert.equal(end.channel.bufferedBytes, 0);
  reader.destroy();
  await end.until(closed);
});

test('flushed resolves when the channel closes under it', async () => {
  const [socket, reader] = await socketPair();
  const end = new End(socket);
  reader.pause();
  end.channel.send({ type: 'submit', items: [item({ payload: { codec: 2, bytes: Buffer.alloc(32 * 1024 * 1024) } })] });
  const waiting = end.channel.flushed();
  reader.resetAndDestroy();
  await waiting;
  await end.until(closed);
  assert.equal(end.closes.length, 1);
});

test('an error thrown by the receiver of a frame does not end the channel', () => {
  const pipe = new PassThrough();
  const closes: unknown[] = [];
  const seen: string[] = [];
  new SocketChannel(pipe, {
    onFrame: ({ type }) => {
      seen.push(type);
      if (seen.length === 1) throw new RangeError('cannot deal with it');
    },
    onClose: (error) => closes.push(error),
  });
  const frame = Buffer.concat(encodeFrame({ type: 'cancel', body: [1] }));
  assert.throws(() => pipe.emit('data', frame), RangeError);
  pipe.emit('data', frame);
  assert.deepEqual([seen, closes], [['cancel', 'cancel'], []]);
});
