/** Encodes Buffers, typed arrays, ArrayBuffers and DataViews as raw bytes. Base64 would cost ten times as much. */

export type Binary = ArrayBufferView | ArrayBufferLike;

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
export function binaryKind(value: Binary): number | undefined {
  if (Buffer.isBuffer(value)) return BUFFER;
  const kind = BINARY_KINDS.indexOf(value[Symbol.toStringTag as never] as (typeof BINARY_KINDS)[number]);
  return kind < 0 ? undefined : kind;
}

export function binaryBytes(value: Binary): Buffer {
  return ArrayBuffer.isView(value)
    ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    : Buffer.from(value as ArrayBuffer);
}

/** Encodes one binary as a payload: its kind, then its bytes. */
export function encodeBinary(value: Binary, kind: number): Buffer {
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
export function makeBinary(kind: number, content: Buffer): unknown {
  if (kind === BUFFER) return Buffer.from(content);
  const name = BINARY_KINDS[kind];
  const owned = content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength);
  if (name === 'ArrayBuffer') return owned;
  const make = name && (globalThis as Record<string, unknown>)[name];
  if (typeof make !== 'function') throw new Error(`binary kind ${name ?? kind} is not known here`);
  return Reflect.construct(make, [owned]);
}
