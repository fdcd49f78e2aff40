/**
 * Changes the size of pictures to the same bytes as Pillow and torchvision do, so that known models answer as in Python. sharp,
 * which the presets of ONNX stages use, is faster and differs by up to a few steps of colour.
 */
import type { Size } from '../presets/placement.ts';
import type { RawImage, RawImageClass } from '../tasks/library.ts';

/** For each pixel of a side of the new picture, the pixels that it covers, and how much each counts. */
interface Covered {
  /** The most pixels that one covers: so many weights are there for each. */
  readonly most: number;
  readonly firsts: Int32Array;
  readonly counts: Int32Array;
  readonly weights: Int32Array;
}

interface Filter {
  /** Pixels to each side on which it looks if a picture becomes larger. */
  readonly reach: number;
  weigh(distance: number): number;
}

/** As in Pillow, weights are whole numbers: this many bits stand behind the point. */
const BITS = 22;
const HALF = 1 << (BITS - 1);

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** Pillow's filters by their names. */
const FILTERS: Readonly<Record<string, Filter>> = {
  box: { reach: 0.5, weigh: (x) => (x > -0.5 && x <= 0.5 ? 1 : 0) },
  bilinear: { reach: 1, weigh: (x) => Math.max(0, 1 - Math.abs(x)) },
  hamming: { reach: 1, weigh: (x) => (Math.abs(x) < 1 ? sinc(x) * (0.54 + 0.46 * Math.cos(Math.PI * x)) : 0) },
  bicubic: { reach: 2, weigh: (x) => cubic(Math.abs(x)) },
  lanczos: { reach: 3, weigh: (x) => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0) },
};

export type FilterName = 'box' | 'bilinear' | 'hamming' | 'bicubic' | 'lanczos';

function cubic(x: number): number {
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/**
 * Computes each pixel from all that it covers, weighted by the filter: first along the lines, then along the columns.
 * @param data red, green and blue of each pixel
 */
export function resizeAsPillow(data: Uint8ClampedArray, from: Size, to: Size, filter: FilterName): Uint8ClampedArray {
  const columns = coveredBy(from.width, to.width, filter);
  const wide = columns === null ? data : new Uint8ClampedArray(to.width * from.height * 3);
  if (columns !== null) sumLines(data, wide, from, columns);
  const lines = coveredBy(from.height, to.height, filter);
  if (lines === null) return wide;
  const made = new Uint8ClampedArray(to.width * to.height * 3);
  sumColumns(wide, made, to.width * 3, lines);
  return made;
}

/** Returns null if the side keeps its length. */
function coveredBy(from: number, to: number, name: FilterName): Covered | null {
  if (from === to) return null;
  const { reach, weigh } = FILTERS[name] as Filter;
  const scale = from / to;
  const spread = Math.max(1, scale);
  const most = Math.ceil(reach * spread) * 2 + 1;
  const [firsts, counts, weights] = [new Int32Array(to), new Int32Array(to), new Int32Array(to * most)];
  for (let at = 0; at < to; at += 1) {
    const middle = (at + 0.5) * scale;
    const first = Math.max(0, Math.floor(middle - reach * spread + 0.5));
    const count = Math.min(from, Math.floor(middle + reach * spread + 0.5)) - first;
    const shares = Array.from({ length: count }, (_, of) => weigh((first + of - middle + 0.5) / spread));
    const sum = shares.reduce((total, share) => total + share, 0);
    firsts[at] = first;
    counts[at] = count;
    weights.set(
      shares.map((share) => Math.round((share / sum) * (1 << BITS))),
      at * most,
    );
  }
  return { most, firsts, counts, weights };
}

function sumLines(data: Uint8ClampedArray, made: Uint8ClampedArray, from: Size, columns: Covered): void {
  const { most, firsts, counts, weights } = columns;
  let to = 0;
  for (let line = 0; line < from.height; line += 1) {
    for (let column = 0; column < firsts.length; column += 1, to += 3) {
      let [red, green, blue] = [HALF, HALF, HALF];
      let at = (line * from.width + (firsts[column] as number)) * 3;
      const end = column * most + (counts[column] as number);
      for (let of = column * most; of < end; of += 1, at += 3) {
        const weight = weights[of] as number;
        red += Math.imul(weight, data[at] as number);
        green += Math.imul(weight, data[at + 1] as number);
        blue += Math.imul(weight, data[at + 2] as number);
      }
      made[to] = red >> BITS;
      made[to + 1] = green >> BITS;
      made[to + 2] = blue >> BITS;
    }
  }
}

function sumColumns(data: Uint8ClampedArray, made: Uint8ClampedArray, stride: number, lines: Covered): void {
  const { most, firsts, counts, weights } = lines;
  const sums = new Int32Array(stride);
  let to = 0;
  for (let line = 0; line < firsts.length; line += 1) {
    sums.fill(HALF);
    for (let of = 0; of < (counts[line] as number); of += 1) {
      const weight = weights[line * most + of] as number;
      const from = ((firsts[line] as number) + of) * stride;
      for (let at = 0; at < stride; at += 1)
        sums[at] = (sums[at] as number) + Math.imul(weight, data[from + at] as number);
    }
    for (let at = 0; at < stride; at += 1, to += 1) made[to] = (sums[at] as number) >> BITS;
  }
}

/** The filters as processors number them; they may also be named. The nearest pixel needs none. */
const NUMBERED: readonly (FilterName | null)[] = [null, 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'];

/**
 * Returns a kind of picture that changes its size as in Python. The library's own looks at the nearest pixels alone, so that
 * a model would see a large picture with a grain that it was not trained with.
 */
export function sizedImages(Base: RawImageClass): RawImageClass {
  return class SizedImage extends Base {
    override async resize(
      width: number | null,
      height: number | null,
      options: { readonly resample?: number | string } = {},
    ): Promise<RawImage> {
      const { resample = 'bilinear' } = options;
      const filter = NUMBERED.find((name, number) => number === resample || name === resample) ?? null;
      const isSize = (side: number | null): side is number => Number.isInteger(side) && Number(side) > 0;
      if (filter === null || this.channels !== 3 || !isSize(width) || !isSize(height))
        return super.resize(width, height, options);
      const data = resizeAsPillow(this.data as Uint8ClampedArray, this, { width, height }, filter);
      return new SizedImage(data, width, height, 3);
    }
  };
}
