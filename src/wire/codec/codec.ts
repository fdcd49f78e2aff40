/**
 * The payload codec. The process that makes a payload (Node-RED or a worker) encodes it once. The payload travels as
 * opaque bytes with a tag, and the process that uses it decodes it once.
 *
 * | tag        | holds                                                       |
 * |------------|-------------------------------------------------------------|
 * | json       | values that JSON carries without loss                       |
 * | bytes      | one Buffer                                                  |
 * | binary     | one typed array, ArrayBuffer or DataView                    |
 * | sections   | JSON with binaries, NaN, Dates, Maps and the like in it     |
 * | structured | JavaScript values that only V8 can carry: cycles, Errors    |
 * | jsonText   | JSON text from an HTTP client, which is not parsed yet      |
 * | list       | items, each encoded by itself: only from worker to engine   |
 *
 * Drops undefined properties, as JSON does. Rejects functions and symbols. In results, also rejects objects of classes
 * without own data, because they would arrive as `{}`.
 */
import { types } from 'node:util';
import { asError, ModeletError } from '../../core/errors.ts';
import type { Payload } from '../../core/model.ts';
import { hasNoData, RETURN_DATA } from '../../core/objects.ts';
import { BUFFER, binaryKind, decodeBinary, encodeBinary } from './binaries.ts';
import { parseJsonText } from './json-text.ts';
import { readList, writeList } from './lists.ts';
import { decodeSections, encodeSections, Lifted, type SpecialKind } from './sections.ts';
import { ByteBudget, type EncodeOptions, tooLarge } from './sizes.ts';
import { decodeStructured, encodeStructured, withoutData } from './structured.ts';

export type { EncodeOptions } from './sizes.ts';

export const CODEC = {
  none: 0,
  json: 1,
  bytes: 2,
  binary: 3,
  sections: 4,
  structured: 5,
  jsonText: 6,
  list: 7,
} as const;

/** Depth from which the walk checks for cycles. Nearly all payloads are shallower and avoid the cost. */
const LOOK_FOR_CYCLES_FROM = 64;

/**
 * Encodes any value. The bytes may share memory with `value`, so pass them to a channel before the value can change.
 * @throws ModeletError with code `blame` for a value that cannot be sent; `payload_too_large`, or `modelet_failed` for
 * a result, if the value is too large.
 */
export function encodePayload(value: unknown, options: EncodeOptions): Payload {
  const payload = encode(value, options);
  const { byteLength } = payload.bytes;
  if (byteLength > options.maxBytes) throw tooLarge(options, `${byteLength} bytes`);
  return payload;
}

function encode(value: unknown, options: EncodeOptions): Payload {
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
    const kind = binaryKind(value);
    if (kind === BUFFER) return { codec: CODEC.bytes, bytes: value as Buffer };
    if (kind !== undefined) return { codec: CODEC.binary, bytes: encodeBinary(value, kind) };
  }
  const scan = new Scan(options);
  try {
    scan.look(value);
    if (scan.structured) return { codec: CODEC.structured, bytes: encodeStructured(value, options) };
    const budget = new ByteBudget(options);
    if (scan.lifted) return { codec: CODEC.sections, bytes: encodeSections(value, scan.lifted, budget) };
    const text = scan.converts
      ? JSON.stringify(value, (_key, converted) => budget.count(converted))
      : JSON.stringify(value);
    return { codec: CODEC.json, bytes: Buffer.from(text) };
  } catch (thrown) {
    const error = asError(thrown);
    if (error instanceof ModeletError) throw error;
    if (error instanceof RangeError) throw tooLarge(options, 'more than can be encoded');
    throw new ModeletError(options.blame, `the value cannot be sent to another process: ${error.message}`);
  }
}

/** Bytes that may stand in a payload's memory beside it, for the value to take that memory over. */
const BESIDE = 4096;

/**
 * Decodes a payload into a value that shares no memory with the bytes, unless the caller leaves them to the value.
 * @param isLast whether the bytes are not read after this, so that a large Buffer may keep them
 * @throws ModeletError `protocol_error` for bytes that do not match their tag; for the tag `jsonText`, see json-text.ts.
 */
export function decodePayload(payload: Payload, isLast = false): unknown {
  const bytes = asBuffer(payload.bytes);
  if (payload.codec === CODEC.jsonText) return parseJsonText(bytes);
  try {
    switch (payload.codec) {
      case CODEC.none:
        return undefined;
      case CODEC.json:
        return JSON.parse(bytes.toString());
      case CODEC.bytes:
        return isLast && fillsItsMemory(bytes) ? bytes : Buffer.from(bytes);
      case CODEC.binary:
        return decodeBinary(bytes);
      case CODEC.sections:
        return decodeSections(bytes);
      case CODEC.structured:
        return decodeStructured(bytes);
      case CODEC.list:
        return readList(bytes).map((item) => decodePayload(item));
    }
  } catch (cause) {
    throw new ModeletError('protocol_error', `payload cannot be decoded: ${(cause as Error).message}`, { cause });
  }
  throw new ModeletError('protocol_error', `payload has an unknown codec ${payload.codec}`);
}

/** Whether nearly nothing else is in the memory: a view that a user keeps would keep that, or show it in `.buffer`. */
function fillsItsMemory({ buffer, byteLength }: Buffer): boolean {
  return byteLength > BESIDE && buffer.byteLength - byteLength <= BESIDE;
}

/**
 * Makes one payload of several: an object with their values as its properties. JSON stays as it is, unread. Only values that JSON cannot hold are decoded and encoded again.
 * @throws ModeletError with code `blame` for a value that cannot be sent; `payload_too_large`, or `modelet_failed` for
 * results, if the object is too large
 */
export function joinPayloads(
  parts: readonly (readonly [name: string, value: Payload])[],
  options: EncodeOptions,
): Payload {
  if (parts.some(([, { codec }]) => codec !== CODEC.json)) {
    return encodePayload(Object.fromEntries(parts.map(([name, value]) => [name, decodePayload(value)])), options);
  }
  const texts = parts.flatMap(([name, { bytes }], index) => [
    `${index === 0 ? '' : ','}${JSON.stringify(name)}:`,
    bytes,
  ]);
  return joinTexts(['{', ...texts, '}'], options);
}

/**
 * Encodes the items of an array, each by itself.
 * @throws ModeletError with code `blame` for any other value, and as `encodePayload` does
 */
export function encodeList(value: unknown, options: EncodeOptions): Payload {
  if (!Array.isArray(value)) {
    const what = value === null ? 'null' : `a value of type ${typeof value}`;
    throw new ModeletError(options.blame, `the stage emits lists, and its result is ${what} instead of a list`);
  }
  let bytes = 0;
  const items = Array.from(value as ArrayLike<unknown>, (item) => {
    const payload = encodePayload(item, options);
    bytes += payload.bytes.byteLength;
    if (bytes > options.maxBytes) throw tooLarge(options, `at least ${bytes} bytes`);
    return payload;
  });
  return { codec: CODEC.list, bytes: writeList(items) };
}

/**
 * Returns the items of a list. Only a list that no worker has taken apart is decoded.
 * @throws ModeletError `modelet_failed` if the value is no list
 */
export function itemsOf(payload: Payload): readonly Payload[] {
  const options: EncodeOptions = { blame: 'modelet_failed', maxBytes: Number.POSITIVE_INFINITY };
  const list = payload.codec === CODEC.list ? payload : encodeList(decodePayload(payload), options);
  try {
    return readList(asBuffer(list.bytes));
  } catch (cause) {
    throw new ModeletError('protocol_error', `list cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/**
 * Makes one payload of several: an array with their values. JSON stays as it is, unread.
 * @throws ModeletError as `joinPayloads` does
 */
export function joinItems(items: readonly Payload[], options: EncodeOptions): Payload {
  if (items.some(({ codec }) => codec !== CODEC.json)) {
    return encodePayload(
      items.map((item) => decodePayload(item)),
      options,
    );
  }
  const texts = items.flatMap(({ bytes }, index) => (index === 0 ? [bytes] : [',', bytes]));
  return joinTexts(['[', ...texts, ']'], options);
}

function joinTexts(texts: readonly (string | Uint8Array)[], options: EncodeOptions): Payload {
  const bytes = Buffer.concat(texts.map((text) => (typeof text === 'string' ? Buffer.from(text) : text)));
  if (bytes.byteLength > options.maxBytes) throw tooLarge(options, `${bytes.byteLength} bytes`);
  return { codec: CODEC.json, bytes };
}

// ---- what kind of value is it?

/** Walks over a value once, to find whether it can go as JSON, what to lift out of it, or whether it needs V8. */
class Scan {
  /** Whether the value needs structured clone. Ends the walk, because `encodeStructured` checks the whole value. */
  structured = false;
  /** Whether the value contains an object with its own `toJSON`. */
  converts = false;
  /** The sections that travel beside the JSON. Made on the first need: nearly all payloads have none. */
  lifted: Lifted | undefined;
  readonly #path: (string | number)[] = [];
  /** The objects around the visited value, the outermost first. */
  readonly #ancestors: object[] = [];
  readonly #blame: EncodeOptions['blame'];
  readonly #budget: ByteBudget;

  constructor(options: EncodeOptions) {
    this.#blame = options.blame;
    this.#budget = new ByteBudget(options);
  }

  look(value: unknown): void {
    try {
      this.visit(value, 0);
    } catch (thrown) {
      // A large value was too large because the walk went around a cycle in it.
      this.structured = new Set(this.#ancestors).size < this.#ancestors.length;
      if (!this.structured) throw thrown;
    }
  }

  visit(value: unknown, depth: number): void {
    switch (typeof value) {
      case 'string':
        this.#budget.spend(value.length + 2);
        return;
      case 'boolean':
        this.#budget.spend(4);
        return;
      case 'number':
        this.#budget.spend(1);
        if (Object.is(value, -0)) this.#lift('Number', '-0');
        else if (!Number.isFinite(value)) this.#lift('Number', String(value));
        return;
      case 'bigint': {
        // Only with a power of two as its base, a large integer is written in linear time.
        const digits = value.toString(16);
        this.#budget.spend(digits.length);
        this.#lift('BigInt', digits).bigints.add(value);
        return;
      }
      case 'undefined':
        // JSON would turn it into null. Undefined properties never reach this line: they are dropped, as JSON does.
        this.#lift('undefined');
        return;
      case 'object':
        this.#budget.spend(1);
        if (value !== null) this.#visitObject(value, depth);
        return;
      default:
        throw this.#unusable(typeof value);
    }
  }

  #visitObject(value: object, depth: number): void {
    this.#budget.checkDepth(depth);
    if (depth >= LOOK_FOR_CYCLES_FROM && this.#ancestors.includes(value)) {
      this.structured = true;
      return;
    }
    this.#ancestors.push(value);
    if (Array.isArray(value)) this.#visitArray(value, depth);
    else if (isPlain(value)) this.#visitProperties(value as Record<string, unknown>, depth);
    else this.#visitInstance(value, depth);
    this.#ancestors.pop();
  }

  #visitArray(array: readonly unknown[], depth: number): void {
    // Count holes too, because the receiver allocates the full length.
    this.#budget.spend(array.length);
    const position = this.#path.push(0) - 1;
    for (let index = 0; index < array.length && !this.structured; index += 1) {
      this.#path[position] = index;
      this.visit(array[index], depth + 1);
    }
    this.#path.pop();
  }

  #visitProperties(object: Record<string, unknown>, depth: number): void {
    const position = this.#path.push('') - 1;
    for (const key of Object.keys(object)) {
      if (this.structured) break;
      this.#path[position] = key;
      const value = object[key];
      if (value === undefined) continue;
      this.#budget.spend(key.length + 4);
      this.visit(value, depth + 1);
    }
    this.#path.pop();
  }

  #visitInstance(value: object, depth: number): void {
    if (ArrayBuffer.isView(value) || types.isArrayBuffer(value)) {
      const kind = binaryKind(value);
      if (kind === undefined) {
        this.structured = true;
        return;
      }
      // Add the bytes that encodeSections writes about the binary.
      this.#budget.spend(value.byteLength + 8 + 2 * this.#path.length);
      this.#beside.addBinary([...this.#path], value, kind);
    } else if (isBound(value)) {
      throw this.#unusable(Object.prototype.toString.call(value).slice(8, -1));
    } else if (types.isDate(value)) {
      this.#lift('Date', value.getTime()).dates.add(value);
    } else if (types.isMap(value) || types.isSet(value)) {
      this.#visitArray(this.#beside.listOf(value), depth);
      // Noted after its members, so that the receiver makes these first.
      this.#lift(types.isMap(value) ? 'Map' : 'Set');
    } else if (onlyV8Carries(value)) {
      this.structured = true;
    } else if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
      // `toJSON` decides what is sent.
      this.converts = true;
    } else if (this.#blame === 'modelet_failed' && hasNoData(value)) {
      throw new ModeletError(this.#blame, withoutData(value, this.#where));
    } else {
      this.#visitProperties(value as Record<string, unknown>, depth);
    }
  }

  /** Notes that the value on the path is no JSON. */
  #lift(kind: SpecialKind, data?: string | number): Lifted {
    this.#budget.spend(8 + 2 * this.#path.length);
    this.#beside.specials.push([[...this.#path], kind, data]);
    return this.#beside;
  }

  get #beside(): Lifted {
    this.lifted ??= new Lifted();
    return this.lifted;
  }

  get #where(): string {
    return this.#path.length === 0 ? 'the value' : `the value at ${this.#path.join('.')}`;
  }

  #unusable(what: string): ModeletError {
    const advice = what === 'Promise' ? 'await it' : RETURN_DATA;
    const end = this.#blame === 'modelet_failed' ? `: ${advice}` : '';
    return new ModeletError(this.#blame, `${this.#where} is a ${what}, which no other process can use${end}`);
  }
}

function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value);
  return (prototype === Object.prototype || prototype === null) && !Object.hasOwn(value, 'toJSON');
}

// Checks internal slots, not instanceof, because values from a function node belong to another realm.
function onlyV8Carries(value: object): boolean {
  return (
    types.isRegExp(value) ||
    types.isNativeError(value) ||
    types.isBoxedPrimitive(value) ||
    types.isSharedArrayBuffer(value)
  );
}

/** Whether the value has a meaning only in its own process. */
function isBound(value: object): boolean {
  return types.isPromise(value) || types.isWeakMap(value) || types.isWeakSet(value);
}

export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
