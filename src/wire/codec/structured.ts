/**
 * Encodes values that only JavaScript has, with V8's structured clone: cycles, Errors, regular expressions. Structured
 * clone writes an object once even if it is referenced often, but writes strings each time, and has no size limit. So
 * the size is counted first.
 */
import { types } from 'node:util';
import { DefaultDeserializer, serialize } from 'node:v8';
import { ModeletError } from '../../core/errors.ts';
import { className, hasNoData, RETURN_DATA } from '../../core/objects.ts';
import { ownedBinary } from './binaries.ts';
import { ByteBudget, type EncodeOptions } from './sizes.ts';

const MOST_OF_EIGHT_BYTES = 2n ** 64n;

/** @throws ModeletError if the value is too large or too deep; a DataCloneError if it cannot be cloned. */
export function encodeStructured(value: unknown, options: EncodeOptions): Buffer {
  new Measure(options).visit(value, 0);
  return serialize(value);
}

/** Decodes a value and copies its binaries, because the reader of Node.js returns them as views into the message. */
export function decodeStructured(bytes: Buffer): unknown {
  const reader = new DefaultDeserializer(bytes) as DefaultDeserializer & { _readHostObject(): ArrayBufferView };
  const readView = reader._readHostObject;
  Object.assign(reader, { _readHostObject: () => ownedBinary(readView.call(reader)) });
  reader.readHeader();
  return reader.readValue();
}

/** Walks over everything that structured clone will write. Leaves values that cannot be cloned to structured clone. */
class Measure {
  readonly #blame: EncodeOptions['blame'];
  readonly #budget: ByteBudget;
  readonly #seen: Set<object> = new Set();

  constructor(options: EncodeOptions) {
    this.#blame = options.blame;
    this.#budget = new ByteBudget(options);
  }

  visit(value: unknown, depth: number): void {
    if (typeof value === 'string') this.#budget.spend(value.length + 1);
    else if (typeof value === 'bigint') this.#budget.spend(bytesOf(value));
    else this.#budget.spend(1);
    if (typeof value !== 'object' || value === null || this.#seen.has(value)) return;
    this.#seen.add(value);
    this.#budget.checkDepth(depth);
    this.#visitObject(value, depth + 1);
  }

  #visitObject(value: object, depth: number): void {
    if (Array.isArray(value)) {
      // Count holes too, because the receiver allocates the full length.
      this.#budget.spend(value.length);
      // Do not use the array's iterator, because user code may have replaced it.
      for (let index = 0; index < value.length; index += 1) this.visit(value[index], depth);
    } else if (types.isMap(value)) {
      Map.prototype.forEach.call(value, (member, key) => {
        this.visit(key, depth);
        this.visit(member, depth);
      });
    } else if (types.isSet(value)) {
      Set.prototype.forEach.call(value, (member) => this.visit(member, depth));
    } else if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
      this.#budget.spend(value.byteLength);
    } else {
      this.#visitInstance(value, depth);
    }
  }

  #visitInstance(value: object, depth: number): void {
    if (types.isNativeError(value)) {
      for (const part of [value.message, value.stack, value.cause]) this.visit(part, depth);
    } else if (types.isRegExp(value)) {
      this.#budget.spend(value.source.length);
    } else if (types.isStringObject(value)) {
      this.#budget.spend(value.length);
    } else if (!types.isDate(value) && !types.isBoxedPrimitive(value)) {
      this.#visitProperties(value, depth);
    }
  }

  #visitProperties(value: object, depth: number): void {
    if (this.#blame === 'modelet_failed' && hasNoData(value)) {
      throw new ModeletError(this.#blame, withoutData(value, 'a value in the result'));
    }
    for (const [key, member] of Object.entries(value)) {
      this.#budget.spend(key.length + 1);
      this.visit(member, depth);
    }
  }
}

/** Returns why a result is rejected that would arrive as `{}`. */
export function withoutData(value: object, where: string): string {
  return `${where} is a ${className(value)}, which has no own data: ${RETURN_DATA}`;
}

function bytesOf(value: bigint): number {
  return value < MOST_OF_EIGHT_BYTES && value > -MOST_OF_EIGHT_BYTES ? 2 : serialize(value).byteLength;
}
