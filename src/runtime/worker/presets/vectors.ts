/** Makes one vector of the vectors of all parts of an input: its tokens, or the places of a picture. */

/**
 * Returns a vector. The values are one vector, one for each part, [parts, size], or one for each place of a picture,
 * [size, height, width].
 * @param pooling `cls`: the first part; else the mean
 * @param mask for each part whether it counts for the mean; absent: all do
 */
export function pool(
  values: Float32Array,
  dims: readonly number[],
  pooling: unknown,
  mask?: ArrayLike<unknown>,
): Float32Array {
  const [first = 1, ...others] = dims;
  if (others.length === 0) return values.slice();
  if (others.length > 1) {
    const places = values.length / first;
    return Float32Array.from({ length: first }, (_, at) => mean(values, at * places, 1, places));
  }
  const [size = 1] = others;
  if (pooling === 'cls') return values.slice(0, size);
  return Float32Array.from({ length: size }, (_, at) => mean(values, at, size, first, mask));
}

function mean(values: Float32Array, from: number, step: number, count: number, mask?: ArrayLike<unknown>): number {
  let sum = 0;
  let counted = 0;
  for (let at = 0; at < count; at += 1) {
    if (mask && Number(mask[at]) === 0) continue;
    sum += values[from + at * step] as number;
    counted += 1;
  }
  return sum / Math.max(1, counted);
}

/** Returns the vector with the length 1. */
export function normalized(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector) || 1;
  return vector.map((value) => value / length);
}
