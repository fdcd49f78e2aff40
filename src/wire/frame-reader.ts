/** Cuts the stream of bytes that a channel receives into frames. */
import { decodeFrame, type Frame, HEAD, LONGEST_FRAME } from './frames.ts';
import { malformed } from './malformed.ts';

export class FrameReader {
  readonly #longest: number;
  #chunks: Buffer[] = [];
  #buffered = 0;

  constructor(longest: number = LONGEST_FRAME) {
    this.#longest = longest;
  }

  /**
   * Takes bytes as they arrive and returns the frames they complete.
   * @throws ModeletError `protocol_error`; the stream cannot be read on after that.
   */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#buffered += chunk.byteLength;
    const frames: Frame[] = [];
    while (this.#buffered >= HEAD) {
      const length = this.#peekLength();
      if (length < HEAD || length % 8 !== 0 || length > this.#longest) {
        throw malformed(`a length of ${length} bytes`);
      }
      if (this.#buffered < length) break;
      frames.push(decodeFrame(this.#take(length)));
    }
    return frames;
  }

  #peekLength(): number {
    const first = this.#chunks[0] as Buffer;
    return first.byteLength >= 4 ? first.readUInt32LE(0) : this.#gather().readUInt32LE(0);
  }

  /** Large frames arrive in many chunks: they are joined once, when the last one is there. */
  #take(length: number): Buffer {
    const first = this.#chunks[0] as Buffer;
    const whole = first.byteLength >= length ? first : this.#gather();
    this.#buffered -= length;
    if (whole.byteLength === length) this.#chunks.shift();
    else this.#chunks[0] = whole.subarray(length);
    return whole.subarray(0, length);
  }

  #gather(): Buffer {
    const whole = Buffer.concat(this.#chunks);
    this.#chunks = [whole];
    return whole;
  }
}
