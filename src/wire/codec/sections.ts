/**
 * Encodes a value as JSON, with everything that JSON cannot hold lifted out of it: binaries as raw bytes, and special
 * values in a list. JavaScript and Python share this form. The JSON has a placeholder for each: null, or the list of a
 * Map's entries or a Set's members.
 *
 * | special   | its data                                  |
 * |-----------|-------------------------------------------|
 * | Number    | `NaN`, `Infinity`, `-Infinity`, `-0`      |
 * | BigInt    | its digits, hexadecimal, after any sign   |
 * | Date      | milliseconds since 1970, or null          |
 * | undefined |                                           |
 * | Map, Set  |                                           |
 */
import { types } from 'node:util';
import { type Binary, binaryBytes, makeBinary } from './binaries.ts';
import { type ByteBudget, padded, padding } from './sizes.ts';

type Path = readonly (string | number)[];

/** Makes each kind of special value from its placeholder and its data. */
const MAKE = {
  Number: (_placeholder: unknown, data: unknown): unknown => Number(data),
  BigInt: (_placeholder: unknown, data: unknown): unknown => bigintOf(String(data)),
  // biome-ignore lint/style/noRestrictedGlobals: a time of the user's, not of the clock
  Date: (_placeholder: unknown, data: unknown): unknown => new Date(typeof data === 'number' ? data : Number.NaN),
  undefined: (): unknown => undefined,
  Map: (entries: unknown): unknown => new Map(entries as [unknown, unknown][]),
  Set: (members: unknown): unknown => new Set(members as unknown[]),
} as const;

export type SpecialKind = keyof typeof MAKE;
/** A special value: its path, its kind and its data. The members of a Map or Set come before it. */
type Special = readonly [path: Path, kind: SpecialKind, data?: string | number | null | undefined];

/** Everything that is lifted out of one value. */
export class Lifted {
  readonly binaries: { readonly path: Path; readonly value: Binary; readonly kind: number }[] = [];
  readonly specials: Special[] = [];
  readonly dates: Set<object> = new Set();
  readonly bigints: Set<bigint> = new Set();
  readonly #lists: Map<object, unknown[]> = new Map();
  readonly #binaries: Set<unknown> = new Set();

  addBinary(path: Path, value: Binary, kind: number): void {
    this.binaries.push({ path, value, kind });
    this.#binaries.add(value);
  }

  /** Returns the list that stands for a Map or Set. Does not use its iterator, because user code may have replaced it. */
  listOf(collection: ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>): unknown[] {
    const known = this.#lists.get(collection);
    if (known) return known;
    const list: unknown[] = [];
    this.#lists.set(collection, list);
    if (types.isMap(collection)) Map.prototype.forEach.call(collection, (member, key) => list.push([key, member]));
    else Set.prototype.forEach.call(collection, (member) => list.push(member));
    return list;
  }

  /** Returns the placeholder of a value, or undefined if it was not lifted out. */
  placeholder(value: unknown): unknown[] | null | undefined {
    if (typeof value === 'bigint') return this.bigints.has(value) ? null : undefined;
    if (typeof value !== 'object' || value === null) return undefined;
    return this.#binaries.has(value) || this.dates.has(value) ? null : this.#lists.get(value);
  }
}

// ---- u32 length of the JSON head, u32 number of sections, then u32 kind and u32 length of each section, then the JSON
//      head, then the sections; the head and each section are padded to 8 bytes

interface SectionsHead {
  readonly value: unknown;
  /** Paths of the binaries, in the order of the sections. */
  readonly paths: readonly Path[];
  readonly specials?: readonly Special[];
}

/** @throws ModeletError if the JSON, including the results of `toJSON`, exceeds `budget`. */
export function encodeSections(value: unknown, lifted: Lifted, budget: ByteBudget): Buffer {
  const { binaries, specials } = lifted;
  const head: SectionsHead = { value: value ?? null, paths: binaries.map((binary) => binary.path) };
  const json = Buffer.from(
    JSON.stringify(
      specials.length > 0 ? { ...head, specials } : head,
      // Use `this[key]`, because the `toJSON` of a Buffer or Date has already converted the second argument.
      function (this: Record<string, unknown>, key: string, converted: unknown) {
        const placeholder = lifted.placeholder(this[key]);
        return placeholder === undefined ? budget.count(converted) : placeholder;
      },
    ),
  );
  const index = Buffer.alloc(8 + binaries.length * 8);
  index.writeUInt32LE(json.byteLength, 0);
  index.writeUInt32LE(binaries.length, 4);
  const parts: Buffer[] = [index, json, padding(json.byteLength)];
  binaries.forEach((binary, position) => {
    const content = binaryBytes(binary.value);
    index.writeUInt32LE(binary.kind, 8 + position * 8);
    index.writeUInt32LE(content.byteLength, 12 + position * 8);
    parts.push(content, padding(content.byteLength));
  });
  return Buffer.concat(parts);
}

export function decodeSections(bytes: Buffer): unknown {
  const headLength = bytes.readUInt32LE(0);
  const count = bytes.readUInt32LE(4);
  let offset = 8 + count * 8;
  const holder = JSON.parse(bytes.toString('utf8', offset, offset + headLength)) as { value: unknown } & SectionsHead;
  offset += padded(headLength);
  for (let position = 0; position < count; position += 1) {
    const length = bytes.readUInt32LE(12 + position * 8);
    const binary = makeBinary(bytes.readUInt32LE(8 + position * 8), bytes.subarray(offset, offset + length));
    place(holder, holder.paths[position] ?? [], () => binary);
    offset += padded(length);
  }
  for (const [path, kind, data] of holder.specials ?? []) {
    if (!Object.hasOwn(MAKE, kind)) throw new Error(`a value of kind ${kind} is not known here`);
    place(holder, path, (placeholder) => MAKE[kind](placeholder, data));
  }
  return holder.value;
}

/** Replaces the placeholder on a path. `__proto__` is safe here, because `own` checks for an own property. */
function place(holder: object, path: Path, make: (placeholder: unknown) => unknown): void {
  let target = holder as Record<string | number, unknown>;
  let last: string | number = 'value';
  for (const key of path) {
    target = own(target, last) as Record<string | number, unknown>;
    last = key;
  }
  target[last] = make(own(target, last));
}

function own(target: Record<string | number, unknown>, key: string | number): unknown {
  if (!Object.hasOwn(target, key)) throw new Error(`no placeholder at ${String(key)}`);
  return target[key];
}

function bigintOf(digits: string): bigint {
  return digits.startsWith('-') ? -BigInt(`0x${digits.slice(1)}`) : BigInt(`0x${digits}`);
}
