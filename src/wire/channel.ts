/**
 * A channel carries frames between a parent and one child: over the socket pair that the child inherits as
 * file descriptor 3, or in memory between two ends of one process (tests, an engine in the same process).
 *
 * No path to protect or clean up, and the end of the other process is the end of the channel.
 */
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { asError } from '../core/errors.ts';
import { FrameReader } from './frame-reader.ts';
import { encodeFrame, type Frame } from './frames.ts';

/** The descriptor on which a child finds its channel. */
export const CHANNEL_FD = 3;

export interface ChannelEvents {
  /** What it throws is not the channel's to judge: it goes to whoever catches this process's uncaught exceptions. */
  onFrame(frame: Frame): void;
  /** Called once. With an error if the other side sent bytes that are no frames, or the pipe broke. */
  onClose(error: Error | null): void;
}

export interface Channel {
  /** Takes the frame for delivery; nothing happens after the channel has closed. */
  send(frame: Frame): void;
  /** Bytes taken but not yet handed to the kernel. */
  readonly bufferedBytes: number;
  /** Bytes that have gone either way. */
  readonly bytes: { readonly sent: number; readonly received: number };
  /** Resolves when all that was sent has left this process, or the channel has closed. */
  flushed(): Promise<void>;
  /** Sends what is buffered, then closes. */
  close(): void;
}

/** Opens this process's end of the channel to its parent. */
export function openParentChannel(events: ChannelEvents): Channel {
  return new SocketChannel(new Socket({ fd: CHANNEL_FD, readable: true, writable: true }), events);
}

export class SocketChannel implements Channel {
  readonly #socket: Duplex;
  readonly #reader: FrameReader = new FrameReader();
  readonly #events: ChannelEvents;
  /** `closing`: what was sent still goes out, nothing more is taken. */
  #state: 'open' | 'closing' | 'closed' = 'open';
  readonly #waiting: Set<() => void> = new Set();

  constructor(socket: Duplex, events: ChannelEvents) {
    this.#socket = socket;
    this.#events = events;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('finish', () => this.#wake());
    socket.on('error', (error) => this.#end(error));
    socket.on('end', () => this.#end(null));
    socket.on('close', () => this.#end(null));
  }

  get bufferedBytes(): number {
    return this.#socket.writableLength;
  }

  get bytes(): { readonly sent: number; readonly received: number } {
    // Only a socket counts; ends of one process have nothing to count.
    const { bytesWritten: sent = 0, bytesRead: received = 0 } = this.#socket as Partial<Socket>;
    return { sent, received };
  }

  send(frame: Frame): void {
    if (this.#state !== 'open') return;
    const parts = encodeFrame(frame);
    if (parts.length === 1) {
      this.#socket.write(parts[0] as Uint8Array);
      return;
    }
    this.#socket.cork();
    for (const part of parts) this.#socket.write(part);
    this.#socket.uncork();
  }

  flushed(): Promise<void> {
    if (this.#state === 'closed' || this.#socket.writableLength === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
      if (this.#state === 'closing') return;
      // An empty write is done when all before it are; 'drain' is silent below the high-water mark.
      this.#socket.write(Buffer.alloc(0), () => {
        this.#waiting.delete(resolve);
        resolve();
      });
    });
  }

  close(): void {
    if (this.#state !== 'open') return;
    this.#state = 'closing';
    this.#socket.end();
  }

  #read(chunk: Buffer): void {
    if (this.#state === 'closed') return;
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
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  #end(error: Error | null): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#socket.destroy();
    this.#wake();
    this.#events.onClose(error);
  }
}
