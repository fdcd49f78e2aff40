/**
 * Checks the shape of msgpack bytes before they are decoded. A few bytes can claim a lot of memory: five bytes declare
 * an array of four billion items, and a decoder allocates it at once.
 */
import { isUtf8 } from 'node:buffer';
import { ModeletError } from '../../core/errors.ts';
import { counted } from '../../core/figures.ts';

/** Most levels, as for any payload. Code that walks a deeper value recursively would run out of stack. */
const DEEPEST = 1000;
/** Most values. Numbers, booleans and nil take at most eight bytes each in memory. */
const MOST_VALUES = 8_000_000;
/** Most texts, binaries, dates, arrays and maps. Each takes about a hundred bytes in memory, even if encoded in one. */
const MOST_OBJECTS = 1_000_000;

const TIMESTAMP = 0xff;
const TIMESTAMP_SIZES: ReadonlySet<number> = new Set([4, 8, 12]);

export interface MsgpackShape {
  /** Whether there are 64-bit integers, which a number may not hold exactly. */
  readonly wide: boolean;
}

/**
 * Reads the shape without decoding any value.
 * @throws ModeletError `bad_request` unless the bytes are exactly one msgpack value; `payload_too_large` for too many
 * values.
 */
export function shapeOf(bytes: Buffer): MsgpackShape {
  const walk = new Walk(bytes);
  walk.run();
  return walk;
}

class Walk implements MsgpackShape {
  wide = false;
  readonly #bytes: Buffer;
  #position = 0;
  #values = 0;
  #objects = 0;
  /** Number of values still to come in each open array or map; the innermost is the last. */
  #open: number[] = [];
  #expected = 1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  run(): void {
    while (this.#expected > 0) {
      this.#expected -= 1;
      this.#read();
      while (this.#open.at(-1) === 0) this.#open.pop();
    }
    const { length } = this.#bytes;
    if (this.#position < length) throw malformed(`${counted(length - this.#position, 'byte')} too many`);
  }

  #read(): void {
    const last = this.#open.length - 1;
    if (last >= 0) this.#open[last] = (this.#open[last] as number) - 1;
    this.#values += 1;
    if (this.#values > MOST_VALUES) throw tooMany(MOST_VALUES, 'values');
    const head = this.#size(1);
    // Small integers first: they are the most frequent.
    if (head < 0x80 || head >= 0xe0) return;
    if (head < 0x90) this.#enter(2 * (head - 0x80));
    else if (head < 0xa0) this.#enter(head - 0x90);
    else if (head < 0xc0) this.#text(head - 0xa0);
    else this.#readSized(head);
  }

  /** Reads what follows a first byte without a size in it. In each range, the next first byte doubles the size. */
  #readSized(head: number): void {
    if (head === 0xc1) throw malformed('a byte that no value begins with');
    // Nil, false and true.
    if (head < 0xc4) return;
    if (head < 0xc7) this.#object(this.#size(1 << (head - 0xc4)));
    else if (head < 0xca) this.#extension(this.#size(1 << (head - 0xc7)));
    else if (head < 0xcc) this.#skip(4 << (head - 0xca));
    else if (head < 0xd4) this.#integer(1 << (head & 3));
    else if (head < 0xd9) this.#extension(1 << (head - 0xd4));
    else if (head < 0xdc) this.#text(this.#size(1 << (head - 0xd9)));
    else this.#enter((head < 0xde ? 1 : 2) * this.#size(2 << (head & 1)));
  }

  #integer(size: number): void {
    this.wide ||= size === 8;
    this.#skip(size);
  }

  /** Counts a value that takes an object in memory, and skips its bytes. */
  #object(size: number): void {
    this.#objects += 1;
    if (this.#objects > MOST_OBJECTS) throw tooMany(MOST_OBJECTS, 'texts, binaries, arrays and maps');
    this.#skip(size);
  }

  /** Decoders put U+FFFD in the place of bytes that are no UTF-8. */
  #text(size: number): void {
    const from = this.#position;
    this.#object(size);
    if (this.#hasHighBytes(from) && !isUtf8(this.#bytes.subarray(from, this.#position)))
      throw malformed('a text that is not UTF-8');
  }

  /** Whether there is another character than those of ASCII. Most texts are short and have none. */
  #hasHighBytes(from: number): boolean {
    for (let at = from; at < this.#position; at += 1) if ((this.#bytes[at] as number) >= 0x80) return true;
    return false;
  }

  #extension(size: number): void {
    const type = this.#size(1);
    if (type !== TIMESTAMP) throw malformed(`an extension of type ${(type << 24) >> 24}, of which there is only -1`);
    if (!TIMESTAMP_SIZES.has(size)) throw malformed(`a timestamp of ${counted(size, 'byte')}`);
    this.#object(size);
  }

  /** Enters an array or a map of `values` values. */
  #enter(values: number): void {
    this.#object(0);
    this.#expected += values;
    this.#open.push(values);
    if (this.#open.length > DEEPEST) throw malformed(`more than ${DEEPEST} levels`);
  }

  #size(width: number): number {
    const from = this.#position;
    this.#skip(width);
    return this.#bytes.readUIntBE(from, width);
  }

  #skip(count: number): void {
    this.#position += count;
    if (this.#position > this.#bytes.length) throw truncated();
  }
}

function malformed(why: string): ModeletError {
  return new ModeletError('bad_request', `the body is not valid msgpack: ${why}`);
}

function truncated(): ModeletError {
  return malformed('it ends in the middle of a value');
}

function tooMany(limit: number, what: string): ModeletError {
  return new ModeletError('payload_too_large', `the body has more than ${limit} ${what}`);
}
