/**
 * Carries frames between a parent and one child: over a socket pair that the child inherits as file descriptor 3, or in
 * memory between two ends in one process (tests, an engine in the same process).
 *
 * A socket pair has no path to protect or clean up, and closes when the other process ends.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import { asError } from '../../core/errors.ts';
import {
  concernsSlots,
  decodeFrame,
  encodeFrame,
  type Frame,
  HEAD,
  isLargeFrame,
  isPiece,
  LONGEST_FRAME,
  type ReadSlot,
  wholeOf,
} from '../frames/frames.ts';
import { malformed, type WireItem } from '../frames/items.ts';
import type { SlotChannel } from '../slots/slot-channel.ts';
import { BulkLane } from './bulk-lane.ts';

/** File descriptor of a child's channel. */
const CHANNEL_FD = 3;

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
 * @param slots where large payloads travel; null: in their frames
 * @param onBytes called with the number of bytes that were received, or that are about to be written.
 */
export function openParentChannel(
  events: ChannelEvents,
  slots: SlotChannel | null,
  onBytes: (count: number) => void,
): Channel {
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
  channel = new SocketChannel(new Socket(options), events, { reused: true, onBytes, slots });
  return channel;
}

interface ChannelOptions {
  /** Whether each read overwrites the chunk of the previous read. */
  readonly reused?: boolean;
  /** Where large payloads travel; absent: in their frames. */
  readonly slots?: SlotChannel | null;
  /** Called with the number of bytes that were received, or that are about to be written. */
  onBytes?(count: number): void;
}

export class SocketChannel implements Channel {
  readonly #socket: Duplex;
  readonly #reader: FrameReader;
  readonly #onBytes: (count: number) => void;
  readonly #events: ChannelEvents;
  readonly #slots: SlotChannel | null;
  /** `closing`: frames that wait are still sent, new frames are ignored. */
  #state: 'open' | 'closing' | 'closed' = 'open';
  readonly #flushing: Set<() => void> = new Set();
  /** Made for the first large frame. */
  #bulk: BulkLane | null = null;
  /** Traffic at the last call of `hasMoved`. */
  #seen = { received: 0, left: 0, isFull: false };

  constructor(socket: Duplex, events: ChannelEvents, options: ChannelOptions = {}) {
    const { reused = false, slots = null, onBytes = () => {} } = options;
    this.#socket = socket;
    this.#events = events;
    this.#slots = slots;
    this.#reader = new FrameReader({ reused, readSlot: slots?.read.bind(slots) ?? null });
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
    return this.#bulk?.bytes ?? 0;
  }

  get waiting(): readonly WireItem[] {
    return this.#bulk?.items ?? [];
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
    const frames = this.#slotsFor(frame)?.outgoing(frame) ?? [frame];
    // They leave by one system call.
    if (frames.length > 1) this.#socket.cork();
    for (const given of frames) {
      if (isLargeFrame(given)) this.#bulk ??= new BulkLane((parts, onLeft) => this.#write(parts, onLeft));
      const atOnce = this.#bulk ? this.#bulk.take(given) : given;
      if (atOnce) this.#write(encodeFrame(atOnce));
    }
    if (frames.length > 1) this.#socket.uncork();
  }

  flushed(): Promise<void> {
    if (this.#state === 'closed' || (this.bufferedBytes === 0 && !this.#bulk?.isWaiting)) return Promise.resolve();
    return new Promise((resolve) => {
      this.#flushing.add(resolve);
      this.#afterBulk(() => {
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
    this.#afterBulk(() => this.#socket.end());
  }

  /** Calls `call` when the large frames that wait now have been written, or at once if none waits. */
  #afterBulk(call: () => void): void {
    if (this.#bulk) this.#bulk.afterAll(call);
    else call();
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
    for (const frame of frames) {
      const answer = this.#slotsFor(frame)?.received(frame);
      if (answer) this.send(answer);
      this.#events.onFrame(frame);
    }
  }

  /** Most frames are small, and pass by. */
  #slotsFor(frame: Frame): SlotChannel | null {
    return this.#slots?.isIdle && !concernsSlots(frame) ? null : this.#slots;
  }

  #wake(): void {
    for (const resolve of this.#flushing) resolve();
    this.#flushing.clear();
  }

  #end(error: Error | null): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#bulk?.clear();
    this.#socket.destroy();
    this.#wake();
    this.#events.onClose(error);
  }
}

/** Fewer bytes are copied, because a separate read costs more. */
const WORTH_ROOM = 32 * 1024;

/** A frame that has arrived in part. */
interface Filling {
  readonly frame: Buffer;
  filled: number;
}

export interface ReaderOptions {
  readonly longest?: number;
  /** Whether the next chunk overwrites the memory of this one, so that the reader must copy the bytes that it keeps. */
  readonly reused?: boolean;
  /** Absent or null: no payload is in a slot. */
  readonly readSlot?: ReadSlot | null;
}

/**
 * Splits the byte stream of a channel into frames. If a frame arrives in several chunks, or in pieces with other frames
 * between them, the reader copies it into its own memory as it arrives, and keeps no chunk.
 */
export class FrameReader {
  readonly #longest: number;
  readonly #reused: boolean;
  readonly #readSlot: ReadSlot | null;
  /** Bytes of an incomplete head. */
  #begun: Buffer | null = null;
  /** An incomplete frame that is not sent in pieces. */
  #frame: Filling | null = null;
  /** An incomplete frame that is sent in pieces. */
  #whole: Filling | null = null;
  /** Bytes of the current piece that have not arrived. */
  #restOfPiece = 0;

  constructor({ longest = LONGEST_FRAME, reused = false, readSlot = null }: ReaderOptions = {}) {
    this.#longest = longest;
    this.#reused = reused;
    this.#readSlot = readSlot;
  }

  /**
   * Memory into which the caller may read the next bytes itself, to save a copy: the rest of an incomplete frame, if that
   * is long. It is only valid until the next call of `push`, which must get what was read into it.
   */
  get room(): Buffer | null {
    const filling = this.#restOfPiece > 0 ? this.#whole : this.#frame;
    if (!filling) return null;
    const end = this.#restOfPiece > 0 ? filling.filled + this.#restOfPiece : filling.frame.byteLength;
    return end - filling.filled >= WORTH_ROOM ? filling.frame.subarray(filling.filled, end) : null;
  }

  /**
   * Takes bytes as they arrive and returns the frames that they complete.
   * @throws ModeletError `protocol_error`; the rest of the stream cannot be read after that.
   */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let rest = this.#begun ? Buffer.concat([this.#begun, chunk]) : chunk;
    this.#begun = null;
    while (rest.byteLength > 0) {
      if (this.#restOfPiece > 0) rest = this.#fillWhole(rest, frames);
      else if (this.#frame) rest = this.#fillFrame(this.#frame, rest, frames);
      else if (rest.byteLength < HEAD) {
        this.#checkBegun(rest);
        this.#begun = this.#kept(rest);
        break;
      } else rest = this.#begin(rest, frames);
    }
    return frames;
  }

  #begin(bytes: Buffer, frames: Frame[]): Buffer {
    const length = this.#checked(bytes.readUInt32LE(0));
    if (isPiece(bytes)) return this.#beginPiece(bytes, length);
    if (bytes.byteLength >= length) {
      frames.push(decodeFrame(this.#kept(bytes.subarray(0, length)), this.#readSlot));
      return bytes.subarray(length);
    }
    // Not from the shared pool for small buffers: a payload that is kept would keep the whole pool in memory.
    this.#frame = { frame: Buffer.allocUnsafeSlow(length), filled: 0 };
    return bytes;
  }

  #beginPiece(bytes: Buffer, length: number): Buffer {
    const total = wholeOf(bytes);
    this.#restOfPiece = length - HEAD;
    this.#whole ??= { frame: Buffer.allocUnsafeSlow(this.#checked(total)), filled: 0 };
    const { frame, filled } = this.#whole;
    if (frame.byteLength !== total) throw malformed('a piece of another frame');
    if (this.#restOfPiece === 0) throw malformed('a piece of nothing');
    if (filled + this.#restOfPiece > total) throw malformed('a piece reaches beyond its frame');
    return bytes.subarray(HEAD);
  }

  #fillFrame(filling: Filling, bytes: Buffer, frames: Frame[]): Buffer {
    const rest = fill(filling, bytes, filling.frame.byteLength);
    if (filling.filled === filling.frame.byteLength) {
      this.#frame = null;
      frames.push(decodeFrame(filling.frame, this.#readSlot));
    }
    return rest;
  }

  #fillWhole(bytes: Buffer, frames: Frame[]): Buffer {
    const whole = this.#whole as Filling;
    const rest = fill(whole, bytes, this.#restOfPiece);
    this.#restOfPiece -= bytes.byteLength - rest.byteLength;
    if (whole.filled === whole.frame.byteLength) {
      this.#whole = null;
      const { frame } = whole;
      if (frame.readUInt32LE(0) !== frame.byteLength) throw malformed('its pieces are not as long as it is');
      frames.push(decodeFrame(frame, this.#readSlot));
    }
    return rest;
  }

  #kept(bytes: Buffer): Buffer {
    if (!this.#reused) return bytes;
    const copy = Buffer.allocUnsafeSlow(bytes.byteLength);
    bytes.copy(copy);
    return copy;
  }

  #checkBegun(bytes: Buffer): void {
    if (bytes.byteLength >= 4) this.#checked(bytes.readUInt32LE(0));
  }

  #checked(length: number): number {
    if (length < HEAD || length % 8 !== 0 || length > this.#longest) throw malformed(`a length of ${length} bytes`);
    return length;
  }
}

/** Copies up to `most` bytes into the frame, and returns the bytes that are left. */
function fill(filling: Filling, bytes: Buffer, most: number): Buffer {
  const room = Math.min(most, filling.frame.byteLength - filling.filled);
  const copied = Math.min(room, bytes.byteLength);
  if (!isInPlace(filling, bytes)) bytes.copy(filling.frame, filling.filled, 0, copied);
  filling.filled += copied;
  return bytes.subarray(copied);
}

/** Whether the bytes have been read into the frame itself. */
function isInPlace({ frame, filled }: Filling, bytes: Buffer): boolean {
  return bytes.buffer === frame.buffer && bytes.byteOffset === frame.byteOffset + filled;
}
