/** Two ends of a channel over a real socket, with what has come to each. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { SocketChannel } from '../../src/wire/channel/channel.ts';
import type { Frame } from '../../src/wire/frames/frames.ts';

const server = createServer().listen(0, '127.0.0.1').unref();
const listening = once(server, 'listening');

export async function socketPair(): Promise<[Socket, Socket]> {
  await listening;
  const address = server.address();
  assert.ok(address && typeof address === 'object');
  const accepted = once(server, 'connection');
  const near = connect(address.port, '127.0.0.1');
  const [far] = (await accepted) as [Socket];
  return [near, far];
}

/** One end of a channel with what has come to it. */
export class End {
  readonly frames: Frame[] = [];
  readonly closes: (Error | null)[] = [];
  readonly channel: SocketChannel;
  #changed: () => void = () => {};

  constructor(socket: Socket) {
    this.channel = new SocketChannel(socket, {
      onFrame: (frame) => {
        this.frames.push(frame);
        this.#changed();
      },
      onClose: (error) => {
        this.closes.push(error);
        this.#changed();
      },
    });
  }

  /** Resolves as soon as `reached` holds. */
  async until(reached: (end: End) => boolean): Promise<void> {
    while (!reached(this)) {
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}

export async function ends(): Promise<{ near: End; far: End; sockets: [Socket, Socket] }> {
  const sockets = await socketPair();
  return { near: new End(sockets[0]), far: new End(sockets[1]), sockets };
}

export const closed = (end: End): boolean => end.closes.length > 0;
