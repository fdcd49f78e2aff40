/** 16-bit floats. Some supported versions of Node.js lack Float16Array; a Float32Array then holds the same numbers. */

type HalfArray = Float32Array & { readonly buffer: ArrayBuffer };
type MakesHalfArray = new (
  values: number | ArrayLike<number> | ArrayBufferLike,
  offset?: number,
  length?: number,
) => HalfArray;

const Native = (globalThis as { Float16Array?: MakesHalfArray }).Float16Array;

/** The array class for 16-bit floats: Float16Array, or Float32Array if Node.js lacks it. */
export const Float16Storage: new (length: number) => Float32Array = Native ?? Float32Array;

/** Converts numbers to the form of ONNX and numpy: two bytes each, rounded to the nearest. */
export function toHalfBits(values: ArrayLike<number>): Uint16Array {
  if (Native) return new Uint16Array(new Native(values).buffer);
  return Uint16Array.from(values, bitsOfHalf);
}

export function fromHalfBits(bits: Uint16Array): Float32Array {
  if (Native) return new Native(bits.slice().buffer);
  return Float32Array.from(bits, halfOfBits);
}

const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** Returns the bits of the half float nearest to a number. */
export function bitsOfHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size >= 65_520) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | roundToEven(size * 2 ** 24);
  double[0] = size;
  const exponent = ((words[1] as number) >>> 20) - 1023;
  // A fraction that rounds up to 2 carries into the exponent, which is correct.
  return sign | (((exponent + 14) << 10) + roundToEven(size / 2 ** (exponent - 10)));
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

export function halfOfBits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}
