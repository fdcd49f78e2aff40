/** A value as msgpack can hold it, where it is not that already. */
import { types } from 'node:util';

/** Deeper ones contain themselves, or are more than a payload may be. */
const DEEPEST = 1000;
/** What refers to the same objects many times over is more than it takes in memory. */
const MOST_VALUES = 20_000_000;
const LEAST_BIGINT = -(2n ** 63n);
const LARGEST_BIGINT = 2n ** 64n - 1n;
const LARGEST_SHORT = 2 ** 32 - 1;
const LEAST_SHORT = -(2 ** 31);

export interface Packable {
  readonly value: unknown;
  /** It has BigInts, and whole numbers of more than 32 bits are BigInts as well. */
  readonly wide: boolean;
}

/**
 * Objects that say how they become JSON become that, as they would in JSON; maps become objects and sets arrays. What
 * needs no change is not copied, nor changed.
 * @throws Error for functions, symbols, BigInts of more than 64 bits, and what is too deep or too much.
 */
export function packable(value: unknown): Packable {
  const conversion = new Conversion();
  const made = conversion.of(value, 0);
  return { value: conversion.foundBigint ? widened(made) : made, wide: conversion.foundBigint };
}

class Conversion {
  foundBigint = false;
  #values = 0;

  of(value: unknown, depth: number): unknown {
    this.#values += 1;
    if (this.#values > MOST_VALUES) throw new Error(`it has more than ${MOST_VALUES} values`);
    switch (typeof value) {
      case 'object':
        return value === null ? null : this.#ofObject(value, depth);
      case 'bigint':
        if (value < LEAST_BIGINT || value > LARGEST_BIGINT) throw new Error(`${value} has more than 64 bits`);
        this.foundBigint = true;
        return value;
      case 'function':
      case 'symbol':
        throw new Error(`there is a ${typeof value} in it`);
      default:
        return value;
    }
  }

  #ofObject(value: object, depth: number): unknown {
    if (depth > DEEPEST) throw new Error(`it has more than ${DEEPEST} levels, or contains itself`);
    if (Array.isArray(value)) return this.#ofArray(value, depth);
    if (ArrayBuffer.isView(value)) return value;
    if (types.isDate(value)) return Number.isNaN(value.getTime()) ? null : value;
    if (types.isAnyArrayBuffer(value)) return Buffer.from(value);
    if (types.isSet(value)) return this.#ofArray([...value], depth);
    if (types.isMap(value)) return this.#ofProperties(fromMap(value), depth);
    if (types.isBoxedPrimitive(value)) return this.of(value.valueOf(), depth + 1);
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === 'function') return this.of(toJSON.call(value, ''), depth + 1);
    return this.#ofProperties(value as Record<string, unknown>, depth);
  }

  #ofArray(array: readonly unknown[], depth: number): readonly unknown[] {
    let made: unknown[] | undefined;
    for (let index = 0; index < array.length; index += 1) {
      const item = array[index];
      const converted = this.of(item, depth + 1);
      if (converted === item) continue;
      made ??= [...array];
      made[index] = converted;
    }
    return made ?? array;
  }

  #ofProperties(object: Record<string, unknown>, depth: number): Record<string, unknown> {
    let made: Record<string, unknown> | undefined;
    for (const key of Object.keys(object)) {
      const property = object[key];
      const converted = this.of(property, depth + 1);
      if (converted === property) continue;
      made ??= copyOf(object);
      made[key] = converted;
    }
    return made ?? object;
  }
}

/** Has no prototype, so that `__proto__` is a property like any other. */
function copyOf(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const copy = Object.create(null) as Record<string, unknown>;
  for (const key of Object.keys(object)) copy[key] = object[key];
  return copy;
}

function fromMap(map: ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const made = Object.create(null) as Record<string, unknown>;
  for (const [key, value] of map) {
    if (typeof key !== 'string' && typeof key !== 'number')
      throw new Error(`there is a Map with a ${typeof key} as key`);
    made[key] = value;
  }
  return made;
}

/** Encoders that take BigInts write whole numbers of more than 32 bits as floats. */
function widened(value: unknown): unknown {
  if (typeof value === 'number') {
    const isShort = value >= LEAST_SHORT && value <= LARGEST_SHORT;
    return isShort || !Number.isSafeInteger(value) ? value : BigInt(value);
  }
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value) || types.isDate(value)) return value;
  if (Array.isArray(value)) return value.map(widened);
  const made = copyOf(value as Record<string, unknown>);
  for (const key of Object.keys(made)) made[key] = widened(made[key]);
  return made;
}
