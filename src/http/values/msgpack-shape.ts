/**
 * Checks the shape of msgpack bytes before they are decoded. A few bytes can claim a lot of memory: five bytes declare
 * an array of four billion items, and a decoder allocates it at once.
 */
import { isUtf8 } from 'node:buffer';
import { ModeletError } from '../../core/errors.ts';

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

/** The content that follows the first byte of a value. */
type Follows =
  /** A fixed number of bytes. */
  | { readonly is: 'bytes'; readonly count: number; readonly wide?: true }
  /** A size of `width` bytes, then that many bytes, items or pairs. */
  | { readonly is: 'sized'; readonly width: 1 | 2 | 4; readonly of: 'bytes' | 'text' | 'extension' | 'items' | 'pairs' }
  | { readonly is: 'extension'; readonly count: number };

const FOLLOWS: ReadonlyMap<number, Follows> = new Map<number, Follows>([
  [0xc0, { is: 'bytes', count: 0 }],
  [0xc2, { is: 'bytes', count: 0 }],
  [0xc3, { is: 'bytes', count: 0 }],
  [0xc4, { is: 'sized', width: 1, of: 'bytes' }],
  [0xc5, { is: 'sized', width: 2, of: 'bytes' }],
  [0xc6, { is: 'sized', width: 4, of: 'bytes' }],
  [0xc7, { is: 'sized', width: 1, of: 'extension' }],
  [0xc8, { is: 'sized', width: 2, of: 'extension' }],
  [0xc9, { is: 'sized', width: 4, of: 'extension' }],
  [0xca, { is: 'bytes', count: 4 }],
  [0xcb, { is: 'bytes', count: 8 }],
  [0xcc, { is: 'bytes', count: 1 }],
  [0xcd, { is: 'bytes', count: 2 }],
  [0xce, { is: 'bytes', count: 4 }],
  [0xcf, { is: 'bytes', count: 8, wide: true }],
  [0xd0, { is: 'bytes', count: 1 }],
  [0xd1, { is: 'bytes', count: 2 }],
  [0xd2, { is: 'bytes', count: 4 }],
  [0xd3, { is: 'bytes', count: 8, wide: true }],
  [0xd4, { is: 'extension', count: 1 }],
  [0xd5, { is: 'extension', count: 2 }],
  [0xd6, { is: 'extension', count: 4 }],
  [0xd7, { is: 'extension', count: 8 }],
  [0xd8, { is: 'extension', count: 16 }],
  [0xd9, { is: 'sized', width: 1, of: 'text' }],
  [0xda, { is: 'sized', width: 2, of: 'text' }],
  [0xdb, { is: 'sized', width: 4, of: 'text' }],
  [0xdc, { is: 'sized', width: 2, of: 'items' }],
  [0xdd, { is: 'sized', width: 4, of: 'items' }],
  [0xde, { is: 'sized', width: 2, of: 'pairs' }],
  [0xdf, { is: 'sized', width: 4, of: 'pairs' }],
]);

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
    if (this.#position < length) throw malformed(`${length - this.#position} bytes too many`);
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
    else this.#readFollowing(FOLLOWS.get(head));
  }

  #readFollowing(follows: Follows | undefined): void {
    if (!follows) throw malformed('a byte that no value begins with');
    if (follows.is === 'bytes') {
      this.#skip(follows.count);
      this.wide ||= follows.wide === true;
    } else if (follows.is === 'extension') {
      this.#extension(follows.count);
    } else {
      const size = this.#size(follows.width);
      if (follows.of === 'bytes') this.#object(size);
      else if (follows.of === 'text') this.#text(size);
      else if (follows.of === 'extension') this.#extension(size);
      else this.#enter(follows.of === 'pairs' ? 2 * size : size);
    }
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
    if (!TIMESTAMP_SIZES.has(size)) throw malformed(`a timestamp of ${size} bytes`);
    this.#object(size);
  }

  /** Enters an array or a map of `values` values. */
  #enter(values: number): void {
    this.#object(0);
    this.#expected += values;
    this.#open.push(values);
    if (this.#open.length > DEEPEST) throw malformed(`more than ${DEEPEST} levels`);
  }

  #size(width: 1 | 2 | 4): number {
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
