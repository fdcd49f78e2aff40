/** Compares two answers to the same input. Floats may differ in their last digits: sums may run in another order. */
import { isDeepStrictEqual, types } from 'node:util';
import { isObject, isPlainObject } from '../../../core/objects.ts';
import { asTensor, elementType } from '../../../core/tensor.ts';

/** Greatest difference of two floats, as a part of the largest float of their array. Other elements must be equal. */
const TOLERANCE: ReadonlyMap<string | undefined, number> = new Map([
  ['float16', 1e-2],
  ['float32', 1e-3],
  ['float64', 1e-6],
]);
/** Tolerance of numbers that are in no typed array: most come from 32-bit floats. */
const PLAIN = 1e-3;
/** Whole numbers may be labels or indexes. */
const WHOLE = 0;
/** Differences of single floats that are this small come from rounding. */
const NOTHING = 1e-6;
const MOST_SHOWN = 4;

/** Two values that should be equal, and their place in the answers: names and indexes. */
export interface Difference {
  readonly at: readonly string[];
  readonly values: readonly [unknown, unknown];
}

/** Returns the first difference, or null if the answers are alike. */
export function differenceOf(one: unknown, other: unknown, at: readonly string[] = []): Difference | null {
  if (types.isMap(one) && types.isMap(other)) return differenceOf([...one], [...other], at);
  if (types.isSet(one) && types.isSet(other)) return differenceOf([...one], [...other], at);
  if (isObject(one) && isObject(other) && !isLeaf(one) && !isLeaf(other)) {
    const names = Object.keys(one);
    if (names.length !== Object.keys(other).length) return { at, values: [one, other] };
    for (const name of names) {
      const found = differenceOf(one[name], other[name], [...at, name]);
      if (found) return found;
    }
    return null;
  }
  return areLeavesAlike(one, other) ? null : { at, values: [one, other] };
}

/** Whether the value is compared as one: numbers share their scale, and a Date has no members. */
function isLeaf(value: object): boolean {
  return isNumbers(value) || asTensor(value) !== null || !(Array.isArray(value) || isPlainObject(value));
}

function areLeavesAlike(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) {
    const tolerance = Number.isInteger(one) && Number.isInteger(other) ? WHOLE : PLAIN;
    return areAlike(one, other, largestOf([one, other]), tolerance, tolerance && NOTHING);
  }
  if (isNumbers(one) && isNumbers(other)) {
    return areListsAlike(one, other, toleranceOf(one, other));
  }
  const [mine, its] = [asTensor(one), asTensor(other)];
  if (!mine && !its) return isDeepStrictEqual(one, other);
  if (!mine || !its || mine.type !== its.type || mine.dims.join() !== its.dims.join()) return false;
  return areListsAlike(mine.data, its.data, TOLERANCE.get(mine.type) ?? 0);
}

function toleranceOf(one: ArrayLike<unknown>, other: ArrayLike<unknown>): number {
  if (types.isTypedArray(one)) return TOLERANCE.get(elementType(one)) ?? 0;
  return Array.isArray(one) && Array.isArray(other) && [one, other].every((list) => list.every(Number.isInteger))
    ? WHOLE
    : PLAIN;
}

/** Says for people what differs: `"y" is [0.641, 0.01] alone, and [0.651, 0.018] together`. */
export function describeDifference({ at, values }: Difference): string {
  const [alone, together] = values.map(shown);
  return `${at.length > 0 ? JSON.stringify(at.join('.')) : 'the result'} is ${alone} alone, and ${together} together`;
}

function shown(value: unknown): string {
  if (value === null || typeof value !== 'object')
    return typeof value === 'string' ? JSON.stringify(value) : rounded(value);
  const tensor = asTensor(value);
  const list = tensor?.data ?? (isNumbers(value) ? value : null);
  if (!list) return `${Array.isArray(value) ? `a list of ${value.length}` : 'another object'}`;
  const first = Array.from({ length: Math.min(list.length, MOST_SHOWN) }, (_, index) => rounded(list[index]));
  const shape = tensor && tensor.dims.length !== 1 ? ` of shape [${tensor.dims.join(', ')}]` : '';
  return `[${first.join(', ')}${list.length > MOST_SHOWN ? ', ...' : ''}]${shape}`;
}

function rounded(value: unknown): string {
  return typeof value === 'number' && !Number.isInteger(value) ? String(Number(value.toPrecision(3))) : String(value);
}

/** Whether the value is a typed array, or an array of numbers only. */
function isNumbers(value: object): value is ArrayLike<unknown> {
  if (types.isTypedArray(value)) return true;
  return Array.isArray(value) && value.length > 0 && value.every((element) => typeof element === 'number');
}

function areListsAlike(one: ArrayLike<unknown>, other: ArrayLike<unknown>, tolerance: number): boolean {
  if (one.length !== other.length) return false;
  const largest = tolerance > 0 ? largestOf(one) : 0;
  for (let index = 0; index < one.length; index += 1)
    if (!areAlike(one[index], other[index], largest, tolerance, 0)) return false;
  return true;
}

function areAlike(one: unknown, other: unknown, largest: number, tolerance: number, least: number): boolean {
  if (Object.is(one, other) || one === other) return true;
  if (typeof one !== 'number' || typeof other !== 'number') return false;
  return Math.abs(one - other) <= Math.max(largest * tolerance, least);
}

/** Returns the largest size of the finite numbers. */
function largestOf(values: ArrayLike<unknown>): number {
  let largest = 0;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    const size = typeof value === 'number' ? Math.abs(value) : 0;
    if (size > largest && size !== Number.POSITIVE_INFINITY) largest = size;
  }
  return largest;
}
