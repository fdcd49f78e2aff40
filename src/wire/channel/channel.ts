/**
 * A channel carries frames between a parent and one child: over the socket pair that the child inherits as
 * file descriptor 3, or in memory between two ends of one process (tests, an engine in the same process).
 *
 * No path to protect or clean up, and the end of the other process is the end of the channel.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { asError } from '../../core/errors.ts';
import { encodeFrame, type Frame } from '../frames/frames.ts';
import type { WireItem } from '../frames/items.ts';
import { BulkLane } from './bulk-lane.ts';
import { FrameReader } from './frame-reader.ts';

/** The descriptor on which a child finds its channel. */
export const CHANNEL_FD = 3;

export interface ChannelEvents {
  /** What it throws is not the channel's to judge: it goes to whoever catches this process's uncaught exceptions. */
  onFrame(frame: Frame): void;
  /** Called once. With an error if the other side sent bytes that are no frames, or the pipe broke. */
  onClose(error: Error | null): void;
}

export interface Channel {
  /** Takes the frame for delivery; nothing happens after the channel has closed. Small frames pass large ones. */
  send(frame: Frame): void;
  /** Bytes written but not yet handed to the kernel: whatever is sent now goes after them. */
  readonly bufferedBytes: number;
  /** Bytes of large payloads that have not been written: small frames pass them. */
  readonly waitingBytes: number;
  /** Large items of which something has not been written. */
  readonly waiting: readonly WireItem[];
  /** Bytes that have gone either way. */
  readonly bytes: { readonly sent: number; readonly received: number };
  /**
   * Whether the other side has done something since this was last asked: bytes came from it, or bytes left for which it
   * had to make room.
   */
  hasMoved(): boolean;
  /** Resolves when all that was sent has left this process, or the channel has closed. */
  flushed(): Promise<void>;
  /** Sends what is buffered, then closes. */
  close(): void;
}

/** Bytes that are read at once. */
const READ_AT_ONCE = 256 * 1024;

/**
 * Opens this process's end of the channel to its parent. All reads go to one buffer: memory of its own for each would be
 * garbage at once, as many megabytes as come, and in pieces so small that the system does not get them back.
 *
 * @param onBytes so many bytes have come, or are written.
 */
export function openParentChannel(events: ChannelEvents, onBytes: (count: number) => void): Channel {
  const buffer = Buffer.allocUnsafeSlow(READ_AT_ONCE);
  const onread: OnReadOpts = {
    buffer,
    callback: (count: number): boolean => {
      channel.read(buffer.subarray(0, count));
      return true;
    },
  };
  const options: SocketConstructorOpts & { onread: OnReadOpts } = {
    fd: CHANNEL_FD,
    readable: true,
    writable: true,
    onread,
  };
  const channel = new SocketChannel(new Socket(options), events, { reused: true, onBytes });
  return channel;
}

interface ChannelOptions {
  /** What it is given to read is overwritten by the next. */
  readonly reused?: boolean;
  /** So many bytes have come, or are written. */
  onBytes?(count: number): void;
}

export class SocketChannel implements Channel {
  readonly #socket: Duplex;
  readonly #reader: FrameReader;
  readonly #onBytes: (count: number) => void;
  readonly #events: ChannelEvents;
  /** `closing`: what was sent still goes out, nothing more is taken. */
  #state: 'open' | 'closing' | 'closed' = 'open';
  readonly #flushing: Set<() => void> = new Set();
  readonly #bulk: BulkLane = new BulkLane((parts, onLeft) => this.#write(parts, onLeft));
  /** As it was when last asked whether anything has moved. */
  #seen = { received: 0, left: 0, isFull: false };

  constructor(socket: Duplex, events: ChannelEvents, { reused = false, onBytes = () => {} }: ChannelOptions = {}) {
    this.#socket = socket;
    this.#events = events;
    this.#reader = new FrameReader({ reused });
    this.#onBytes = onBytes;
    socket.on('data', (chunk: Buffer) => this.read(chunk));
    socket.on('finish', () => this.#wake());
    socket.on('error', (error) => this.#end(error));
    socket.on('end', () => this.#end(null));
    socket.on('close', () => this.#end(null));
  }

  get bufferedBytes(): number {
    return this.#socket.writableLength;
  }

  get waitingBytes(): number {
    return this.#bulk.bytes;
  }

  get waiting(): readonly WireItem[] {
    return this.#bulk.items;
  }

  get bytes(): { readonly sent: number; readonly received: number } {
    // Only a socket counts; ends of one process have nothing to count.
    const { bytesWritten: sent = 0, bytesRead: received = 0 } = this.#socket as Partial<Socket>;
    return { sent, received };
  }

  hasMoved(): boolean {
    const { sent, received } = this.bytes;
    const { bufferedBytes } = this;
    const before = this.#seen;
    this.#seen = { received, left: sent - bufferedBytes, isFull: bufferedBytes > 0 };
    // What the kernel has room for leaves whether anybody reads it or not.
    return received > before.received || (before.isFull && this.#seen.left > before.left);
  }

  send(frame: Frame): void {
    if (this.#state !== 'open') return;
    const atOnce = this.#bulk.concerns(frame) ? this.#bulk.take(frame) : frame;
    if (atOnce) this.#write(encodeFrame(atOnce));
  }

  flushed(): Promise<void> {
    if (this.#state === 'closed' || (this.bufferedBytes === 0 && this.#bulk.isEmpty)) return Promise.resolve();
    return new Promise((resolve) => {
      this.#flushing.add(resolve);
      this.#bulk.afterAll(() => {
        if (this.#socket.writableEnded) return;
        // An empty write is done when all before it are; 'drain' is silent below the high-water mark.
        this.#socket.write(Buffer.alloc(0), () => {
          this.#flushing.delete(resolve);
          resolve();
        });
      });
    });
  }

  close(): void {
    if (this.#state !== 'open') return;
    this.#state = 'closing';
    this.#bulk.afterAll(() => this.#socket.end());
  }

  #write(parts: readonly Uint8Array[], onLeft?: () => void): void {
    const last = parts.length - 1;
    if (last > 0) this.#socket.cork();
    for (let index = 0; index <= last; index += 1) {
      const part = parts[index] as Uint8Array;
      this.#onBytes(part.byteLength);
      this.#socket.write(part, index === last ? onLeft : undefined);
    }
    if (last > 0) this.#socket.uncork();
  }

  /** Takes bytes that have come. */
  read(chunk: Buffer): void {
    if (this.#state === 'closed') return;
    this.#onBytes(chunk.byteLength);
    let frames: Frame[];
    try {
      frames = this.#reader.push(chunk);
    } catch (thrown) {
      this.#end(asError(thrown));
      return;
    }
    for (const frame of frames) this.#events.onFrame(frame);
  }

  #wake(): void {
    for (const resolve of this.#flushing) resolve();
    this.#flushing.clear();
  }

  #end(error: Error | null): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#bulk.clear();
    this.#socket.destroy();
    this.#wake();
    this.#events.onClose(error);
  }
}
