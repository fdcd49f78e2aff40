/**
 * Splits the byte stream of a channel into frames. If a frame arrives in several chunks, or in pieces with other frames
 * between them, the reader copies it into its own memory as it arrives, and keeps no chunk.
 */
import { decodeFrame, type Frame, HEAD, isPiece, LONGEST_FRAME, wholeOf } from '../frames/frames.ts';
import { malformed } from '../frames/items.ts';

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
}

export class FrameReader {
  readonly #longest: number;
  readonly #reused: boolean;
  /** Bytes of an incomplete head. */
  #begun: Buffer | null = null;
  /** An incomplete frame that is not sent in pieces. */
  #frame: Filling | null = null;
  /** An incomplete frame that is sent in pieces. */
  #whole: Filling | null = null;
  /** Bytes of the current piece that have not arrived. */
  #restOfPiece = 0;

  constructor({ longest = LONGEST_FRAME, reused = false }: ReaderOptions = {}) {
    this.#longest = longest;
    this.#reused = reused;
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
      frames.push(decodeFrame(this.#kept(bytes.subarray(0, length))));
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
      frames.push(decodeFrame(filling.frame));
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
      frames.push(decodeFrame(frame));
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
