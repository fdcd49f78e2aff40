/**
 * Carries frames between a parent and one child: over a socket pair that the child inherits as file descriptor 3, or in
 * memory between two ends in one process (tests, an engine in the same process).
 *
 * A socket pair has no path to protect or clean up, and closes when the other process ends.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { asError } from '../../core/errors.ts';
import { encodeFrame, type Frame } from '../frames/frames.ts';
import type { WireItem } from '../frames/items.ts';
import { BulkLane } from './bulk-lane.ts';
import { FrameReader } from './frame-reader.ts';

/** File descriptor of a child's channel. */
export const CHANNEL_FD = 3;

export interface ChannelEvents {
  /** A frame arrived. The channel does not catch errors of this callback; they become uncaught exceptions. */
  onFrame(frame: Frame): void;
  /** Called once. `error` is set if the other side sent bytes that are not frames, or if the pipe broke. */
  onClose(error: Error | null): void;
}

export interface Channel {
  /** Queues the frame for delivery; no effect after `close`. Small frames overtake large ones. */
  send(frame: Frame): void;
  /** Bytes that were written but have not reached the kernel. Later frames follow them. */
  readonly bufferedBytes: number;
  /** Bytes of large payloads that have not been written. Small frames overtake them. */
  readonly waitingBytes: number;
  /** Items of large frames that have not been fully written. */
  readonly waiting: readonly WireItem[];
  /** Bytes sent and received so far. */
  readonly bytes: { readonly sent: number; readonly received: number };
  /**
   * Whether the other side has been active since the last call: it sent bytes, or it read bytes and so made room for
   * bytes that were waiting here.
   */
  hasMoved(): boolean;
  /** Resolves when all frames sent so far have left this process, or when the channel has closed. */
  flushed(): Promise<void>;
  /** Sends the frames that wait, then closes. */
  close(): void;
}

/** Most bytes per read. */
const READ_AT_ONCE = 256 * 1024;

/**
 * Opens this process's end of the channel to its parent. All reads share one buffer. A new buffer for each read would
 * become garbage at once, as many megabytes as arrive, in pieces too small to be returned to the system. The rest of a
 * large frame is read into the frame itself.
 *
 * @param onBytes called with the number of bytes that were received, or that are about to be written.
 */
export function openParentChannel(events: ChannelEvents, onBytes: (count: number) => void): Channel {
  const shared = Buffer.allocUnsafeSlow(READ_AT_ONCE);
  let buffer: Buffer = shared;
  const onread: OnReadOpts = {
    // Node.js asks for the first buffer before there is a channel, then after each read.
    buffer: () => {
      buffer = channel?.room ?? shared;
      return buffer;
    },
    callback: (count: number): boolean => {
      channel?.read(buffer.subarray(0, count));
      return true;
    },
  };
  const options: SocketConstructorOpts & { onread: OnReadOpts } = {
    fd: CHANNEL_FD,
    readable: true,
    writable: true,
    onread,
  };
  let channel: SocketChannel | null = null;
  channel = new SocketChannel(new Socket(options), events, { reused: true, onBytes });
  return channel;
}

interface ChannelOptions {
  /** Whether each read overwrites the chunk of the previous read. */
  readonly reused?: boolean;
  /** Called with the number of bytes that were received, or that are about to be written. */
  onBytes?(count: number): void;
}

export class SocketChannel implements Channel {
  readonly #socket: Duplex;
  readonly #reader: FrameReader;
  readonly #onBytes: (count: number) => void;
  readonly #events: ChannelEvents;
  /** `closing`: frames that wait are still sent, new frames are ignored. */
  #state: 'open' | 'closing' | 'closed' = 'open';
  readonly #flushing: Set<() => void> = new Set();
  readonly #bulk: BulkLane = new BulkLane((parts, onLeft) => this.#write(parts, onLeft));
  /** Traffic at the last call of `hasMoved`. */
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
    // Only a socket counts its bytes; a stream within one process does not.
    const { bytesWritten: sent = 0, bytesRead: received = 0 } = this.#socket as Partial<Socket>;
    return { sent, received };
  }

  hasMoved(): boolean {
    const { sent, received } = this.bytes;
    const { bufferedBytes } = this;
    const before = this.#seen;
    this.#seen = { received, left: sent - bufferedBytes, isFull: bufferedBytes > 0 };
    // While the kernel has room, bytes leave even if the other side does not read them. They count only if bytes were waiting before.
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
        // An empty write completes after all earlier writes. 'drain' is not emitted below the high-water mark.
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

  /** Memory of a large frame for the bytes that arrive next, or null. */
  get room(): Buffer | null {
    return this.#reader.room;
  }

  /** Takes received bytes, which may have been read into the reader's `room`. */
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
