/** flushed() where every write takes its time: it waits for what was sent before it, and for nothing else. */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import { SocketChannel } from '../../src/wire/channel/channel.ts';

/** A pipe that hands each write on when it is told to. */
class SlowPipe extends Duplex {
  readonly taken: (() => void)[] = [];

  override _write(_chunk: Buffer, _encoding: string, done: () => void): void {
    this.taken.push(done);
  }

  override _read(): void {}

  /** Lets the write in hand pass; the next one starts in the same turn or the following. */
  async pass(): Promise<void> {
    this.taken.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

function open(): { pipe: SlowPipe; channel: SocketChannel } {
  const pipe = new SlowPipe();
  return { pipe, channel: new SocketChannel(pipe, { onFrame: () => {}, onClose: () => {} }) };
}

test('flushed resolves at once if nothing was sent', async () => {
  await open().channel.flushed();
});

test('a later frame neither delays nor prevents flushed', async () => {
  const { pipe, channel } = open();
  channel.send({ type: 'cancel', body: [1] });
  let flushed = false;
  const waiting = channel.flushed().then(() => {
    flushed = true;
  });
  channel.send({ type: 'cancel', body: [2] });
  await pipe.pass();
  assert.equal(channel.bufferedBytes > 0, true);
  // The empty write that marks the place.
  await pipe.pass();
  assert.equal(flushed, true);
  await waiting;
  await pipe.pass();
  assert.equal(channel.bufferedBytes, 0);
});

test('several calls of flushed resolve in turn', async () => {
  const { pipe, channel } = open();
  const order: number[] = [];
  for (const number of [1, 2, 3]) {
    channel.send({ type: 'cancel', body: [number] });
    void channel.flushed().then(() => order.push(number));
  }
  for (let write = 0; write < 6; write += 1) await pipe.pass();
  assert.deepEqual(order, [1, 2, 3]);
});

test('flushed resolves during close when all frames have left', async () => {
  const { pipe, channel } = open();
  channel.send({ type: 'cancel', body: [1] });
  channel.close();
  const waiting = channel.flushed();
  await pipe.pass();
  await waiting;
  assert.equal(channel.bufferedBytes, 0);
});
