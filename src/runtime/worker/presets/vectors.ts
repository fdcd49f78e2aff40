/** Makes one vector of the vectors of all parts of an input: its tokens, or the places of a picture. */

/**
 * Returns a vector. The values are one vector, one for each part, [parts, size], or one for each place of a picture,
 * [size, height, width].
 * @param pooling `cls`: the first part; `last_token`: the last; else the mean
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
    return Float32Array.from({ length: first }, (_, at) => mean(values, at * places, places));
  }
  const [size = 1] = others;
  if (pooling === 'cls') return values.slice(0, size);
  if (pooling === 'last_token') return values.slice(values.length - size);
  return meanOfParts(values, size, mask);
}

function mean(values: Float32Array, from: number, count: number): number {
  let sum = 0;
  for (let at = 0; at < count; at += 1) sum += values[from + at] as number;
  return sum / count;
}

/** Part by part, in the order of the memory: the vectors of a batch are larger than the caches of a CPU. */
function meanOfParts(values: Float32Array, size: number, mask?: ArrayLike<unknown>): Float32Array {
  const sums = new Float64Array(size);
  let counted = 0;
  for (let from = 0, part = 0; from < values.length; from += size, part += 1) {
    if (mask && Number(mask[part]) === 0) continue;
    counted += 1;
    for (let at = 0; at < size; at += 1) sums[at] = (sums[at] as number) + (values[from + at] as number);
  }
  return Float32Array.from(sums, (sum) => sum / Math.max(1, counted));
}

/** Returns the vector with the length 1. */
export function normalized(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0)) || 1;
  return vector.map((value) => value / length);
}
