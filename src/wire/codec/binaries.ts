/**
 * Encodes binaries as raw bytes: either a single binary, or several that are taken out of a value and sent beside the
 * JSON of the rest. Base64 in JSON would cost ten times as much.
 */
import type { ByteBudget } from './payload-limits.ts';

/** A binary inside a value, with its path. */
export interface FoundBinary {
  readonly path: readonly (string | number)[];
  readonly value: ArrayBufferView | ArrayBufferLike;
  readonly kind: number;
}

export const BUFFER = 0;
const BINARY_HEAD = 8;

/** Kinds of binaries. The position is the kind's number in frames, so only append. */
const BINARY_KINDS = [
  'Buffer',
  'ArrayBuffer',
  'DataView',
  'Int8Array',
  'Uint8Array',
  'Uint8ClampedArray',
  'Int16Array',
  'Uint16Array',
  'Int32Array',
  'Uint32Array',
  'Float32Array',
  'Float64Array',
  'BigInt64Array',
  'BigUint64Array',
  'Float16Array',
] as const;

/** Returns the number of a binary's kind, or undefined if the kind is not in the list. */
export function binaryKind(value: ArrayBufferView | ArrayBufferLike): number | undefined {
  if (Buffer.isBuffer(value)) return BUFFER;
  const kind = BINARY_KINDS.indexOf(value[Symbol.toStringTag as never] as (typeof BINARY_KINDS)[number]);
  return kind < 0 ? undefined : kind;
}

function binaryBytes(value: ArrayBufferView | ArrayBufferLike): Buffer {
  return ArrayBuffer.isView(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : Buffer.from(value as ArrayBuffer);
}

/** Encodes one binary as a payload: its kind, then its bytes. */
export function encodeBinary(value: ArrayBufferView | ArrayBufferLike, kind: number): Buffer {
  const content = binaryBytes(value);
  const bytes = Buffer.allocUnsafe(BINARY_HEAD + content.byteLength);
  bytes.fill(0, 0, BINARY_HEAD);
  bytes[0] = kind;
  content.copy(bytes, BINARY_HEAD);
  return bytes;
}

export function decodeBinary(bytes: Buffer): unknown {
  return makeBinary(bytes.readUInt8(0), bytes.subarray(BINARY_HEAD));
}

/** Returns a copy of the binary in its own memory. */
export function ownedBinary(view: ArrayBufferView): unknown {
  return makeBinary(binaryKind(view) as number, binaryBytes(view));
}

/** Copies the content into a new binary. With a view, users who look at `.buffer` would see bytes of other requests. */
function makeBinary(kind: number, content: Buffer): unknown {
  if (kind === BUFFER) return Buffer.from(content);
  const name = BINARY_KINDS[kind];
  const owned = content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength);
  if (name === 'ArrayBuffer') return owned;
  const make = name && (globalThis as Record<string, unknown>)[name];
  if (typeof make !== 'function') throw new Error(`binary kind ${name ?? kind} is not known here`);
  return Reflect.construct(make, [owned]);
}

// ---- sections: u32 length of the JSON head, u32 number of sections, then u32 kind and u32 length of each section,
//      then the JSON head, then the sections; the head and each section are padded to 8 bytes

interface SectionsHead {
  readonly value: unknown;
  readonly paths: readonly (readonly (string | number)[])[];
}

/** @throws ModeletError if the JSON, including the results of `toJSON`, exceeds `budget`. */
export function encodeSections(value: unknown, binaries: readonly FoundBinary[], budget: ByteBudget): Buffer {
  const lifted = new Set<unknown>(binaries.map((binary) => binary.value));
  const head = Buffer.from(
    JSON.stringify(
      { value, paths: binaries.map((binary) => binary.path) } satisfies SectionsHead,
      // Use `this[key]`, because Buffer's toJSON has already converted the second argument.
      function (this: Record<string, unknown>, key: string, converted: unknown) {
        return lifted.has(this[key]) ? null : budget.count(converted);
      },
    ),
  );
  const parts: Buffer[] = [];
  const index = Buffer.alloc(8 + binaries.length * 8);
  index.writeUInt32LE(head.byteLength, 0);
  index.writeUInt32LE(binaries.length, 4);
  parts.push(index, head, padding(head.byteLength));
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
    place(holder, ['value', ...(holder.paths[position] ?? [])], binary);
    offset += padded(length);
  }
  return holder.value;
}

/** Replaces the null that stands for a binary. `__proto__` is safe here, because `own` checks for an own property. */
function place(holder: object, path: readonly (string | number)[], binary: unknown): void {
  let target = holder as Record<string | number, unknown>;
  for (const key of path.slice(0, -1)) target = own(target, key) as Record<string | number, unknown>;
  const last = path.at(-1) as string | number;
  own(target, last);
  target[last] = binary;
}

function own(target: Record<string | number, unknown>, key: string | number): unknown {
  if (!Object.hasOwn(target, key)) throw new Error(`no place for a binary at ${String(key)}`);
  return target[key];
}

const NOTHING = Buffer.alloc(8);

/**
 * Rounds a length up to a multiple of 8. Does not use bit operations: they work on signed 32-bit numbers, and a length
 * from a hostile frame may use all 32 bits.
 */
export function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

function padding(length: number): Buffer {
  return NOTHING.subarray(0, padded(length) - length);
}
