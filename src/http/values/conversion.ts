/** Converts a value so that a form of answer can hold it, such as JSON. Copies only changed parts; never changes its input. */
import { types } from 'node:util';
import { className, hasNoData, RETURN_DATA } from '../../core/objects.ts';
import { asTensor, elementType, nested, type Tensor } from '../../core/tensor.ts';

/** Most levels. A deeper value contains itself, or is deeper than a payload may be. */
const DEEPEST = 1000;

/** Conversions of values that a form cannot hold unchanged. Each may throw for a value that the form cannot hold. */
export interface ValueForm {
  /** Most values. A value that refers to the same object many times becomes larger than it is in memory. */
  readonly mostValues: number;
  /** Converts a text. Keys of objects stay as they are. */
  text(value: string): string;
  bigint(value: bigint): unknown;
  /** Converts functions and symbols. */
  code(value: unknown): unknown;
  binary(value: ArrayBufferView | ArrayBufferLike): unknown;
  tensor(value: Tensor): unknown;
  /** Converts a map that has a key other than text or a number, or two keys with the same text. */
  pairs(map: ReadonlyMap<unknown, unknown>): readonly unknown[];
}

/**
 * Returns the value, converted to the form.
 * @throws Error for objects without data, and for a value that the form cannot hold, or that is too deep or too large.
 */
export function converted(value: unknown, form: ValueForm): unknown {
  return new Conversion(form).of(value, 0);
}

class Conversion {
  readonly #form: ValueForm;
  #values = 0;

  constructor(form: ValueForm) {
    this.#form = form;
  }

  of(value: unknown, depth: number): unknown {
    this.#values += 1;
    if (this.#values > this.#form.mostValues) throw new Error(`it has more than ${this.#form.mostValues} values`);
    switch (typeof value) {
      case 'object':
        return value === null ? null : this.#ofObject(value, depth);
      case 'string':
        return this.#form.text(value);
      case 'bigint':
        return this.#form.bigint(value);
      case 'function':
      case 'symbol':
        return this.#form.code(value);
      default:
        return value;
    }
  }

  #ofObject(value: object, depth: number): unknown {
    if (depth > DEEPEST) throw new Error(`it has more than ${DEEPEST} levels, or contains itself`);
    if (Array.isArray(value)) return this.#ofArray(value, depth);
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return this.#form.binary(value);
    if (types.isDate(value)) return Number.isNaN(value.getTime()) ? null : value;
    if (types.isSet(value)) return this.#ofArray([...value], depth);
    if (types.isMap(value)) return this.#ofMap(value, depth);
    if (types.isBoxedPrimitive(value)) return this.of(value.valueOf(), depth + 1);
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === 'function') return this.of(toJSON.call(value, ''), depth + 1);
    if (types.isRegExp(value)) return String(value);
    if (types.isNativeError(value)) return { name: value.name, message: value.message };
    if (hasNoData(value)) {
      throw new Error(`there is a ${className(value)} in it, which has no own data: ${RETURN_DATA}`);
    }
    const tensor = asTensor(value);
    if (tensor) return this.#form.tensor(tensor);
    return this.#ofProperties(value as Record<string, unknown>, depth);
  }

  #ofArray(array: readonly unknown[], depth: number): readonly unknown[] {
    let made: unknown[] | undefined;
    for (let index = 0; index < array.length; index += 1) {
      const item = array[index];
      const changed = this.of(item, depth + 1);
      if (Object.is(changed, item)) continue;
      made ??= [...array];
      made[index] = changed;
    }
    return made ?? array;
  }

  #ofMap(map: ReadonlyMap<unknown, unknown>, depth: number): unknown {
    const object = objectOf(map);
    return object ? this.#ofProperties(object, depth) : this.#ofArray(this.#form.pairs(map), depth);
  }

  #ofProperties(object: Record<string, unknown>, depth: number): Record<string, unknown> {
    let made: Record<string, unknown> | undefined;
    for (const key of Object.keys(object)) {
      const property = object[key];
      const changed = this.of(property, depth + 1);
      if (Object.is(changed, property)) continue;
      made ??= copyOf(object);
      made[key] = changed;
    }
    return made ?? object;
  }
}

/** Returns a shallow copy without a prototype, so that `__proto__` is a property like any other. */
export function copyOf(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copy = Object.create(null) as Record<string, unknown>;
  for (const key of Object.keys(object)) copy[key] = object[key];
  return copy;
}

function objectOf(map: ReadonlyMap<unknown, unknown>): Record<string, unknown> | null {
  const made = Object.create(null) as Record<string, unknown>;
  for (const [key, value] of map) {
    if ((typeof key !== 'string' && typeof key !== 'number') || Object.hasOwn(made, key)) return null;
    made[key] = value;
  }
  return made;
}

/** Most values of an answer. The limit is below the length of the longest text. */
const MOST_IN_JSON = 2 ** 28;

/**
 * Returns the value in a form that JSON can hold. Typed arrays and tensors become arrays, nested by their shape. Sets
 * become arrays. Maps become objects, or arrays of `[key, value]` if a key is neither text nor a number. BigInts become
 * numbers, or texts if a number would not be exact.
 * @throws Error for objects without data, and for a value that is too deep or too large.
 */
export function jsonable(value: unknown): unknown {
  return converted(value, JSON_FORM);
}

const JSON_FORM: ValueForm = {
  mostValues: MOST_IN_JSON,
  text: (value) => value,
  bigint: exact,
  // JSON.stringify omits functions and symbols.
  code: (value) => value,
  binary: (value) => {
    // A Buffer has its own JSON form, which Node-RED recognizes.
    if (Buffer.isBuffer(value)) return value;
    if (!ArrayBuffer.isView(value)) return Array.from(new Uint8Array(value));
    if (elementType(value) !== undefined) return Array.from(value as unknown as ArrayLike<unknown>, exact);
    return Array.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  },
  tensor: (value) => nested(value, value.type === 'bool' ? (element) => element === 1 : exact),
  pairs: (map) => [...map],
};

function exact(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}
