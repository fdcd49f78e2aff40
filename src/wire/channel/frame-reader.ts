/**
 * Cuts the stream of bytes that a channel receives into frames. A frame that comes in many chunks, or in pieces with
 * other frames between them, is copied into memory of its own as it comes: no chunk is kept for it.
 */
import { decodeFrame, type Frame, HEAD, isPiece, LONGEST_FRAME, wholeOf } from '../frames/frames.ts';
import { malformed } from './malformed.ts';

/** A frame of which the first bytes have come. */
interface Filling {
  readonly frame: Buffer;
  filled: number;
}

export interface ReaderOptions {
  readonly longest?: number;
  /** The bytes that it gets are overwritten by the next ones: what is kept of them has to be copied. */
  readonly reused?: boolean;
}

export class FrameReader {
  readonly #longest: number;
  readonly #reused: boolean;
  /** Less than a head. */
  #begun: Buffer | null = null;
  /** A frame that comes in one go. */
  #frame: Filling | null = null;
  /** A frame that comes in pieces, and how much of the present piece is still to come. */
  #whole: Filling | null = null;
  #restOfPiece = 0;

  constructor({ longest = LONGEST_FRAME, reused = false }: ReaderOptions = {}) {
    this.#longest = longest;
    this.#reused = reused;
  }

  /**
   * Takes bytes as they arrive and returns the frames they complete.
   * @throws ModeletError `protocol_error`; the stream cannot be read on after that.
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
    // Not from the pool that small buffers share: whoever keeps a payload would keep all of that.
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

/** Copies up to `most` bytes, and returns those that are left. */
function fill(filling: Filling, bytes: Buffer, most: number): Buffer {
  const room = Math.min(most, filling.frame.byteLength - filling.filled);
  const copied = bytes.copy(filling.frame, filling.filled, 0, Math.min(room, bytes.byteLength));
  filling.filled += copied;
  return bytes.subarray(copied);
}
