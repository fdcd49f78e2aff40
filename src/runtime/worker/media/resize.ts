/**
 * Changes the size of pictures to the same bytes as Pillow and torchvision do, so that known models answer as in Python. sharp,
 * which the presets of ONNX stages use, is faster and differs by up to a few steps of colour.
 */
import type { Size } from '../presets/placement.ts';
import type { PixelImage, RawImageClass } from '../tasks/library.ts';
import { checkNewSize } from './pictures.ts';

/** For each pixel of a side of the new picture, the pixels that it covers, and how much each counts. */
interface Covered {
  /** The most pixels that one covers, at least 3: so many weights are there for each, 0 where it covers fewer. */
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
  const lines = coveredBy(from.height, to.height, filter);
  const length = to.width * from.height * 3;
  const wide = columns === null ? data : lines === null ? new Uint8ClampedArray(length) : between(length);
  if (columns !== null) sumLines(data, wide, from, columns);
  if (lines === null) return wide;
  const made = new Uint8ClampedArray(to.width * to.height * 3);
  sumColumns(wide, made, to.width * 3, lines);
  return made;
}

/** Keeps what lies between the two steps for the next picture, so that the garbage collector has less to do. */
let kept = new Uint8ClampedArray(0);
const MOST_KEPT = 8 * 1024 * 1024;

function between(length: number): Uint8ClampedArray {
  if (length > MOST_KEPT) return new Uint8ClampedArray(length);
  if (kept.length < length) kept = new Uint8ClampedArray(length);
  return kept;
}

/** Of the sides that were last computed: a camera gives pictures of one size. */
const computed = new Map<string, Covered>();
const MOST_COMPUTED = 16;

/** Returns null if the side keeps its length. */
function coveredBy(from: number, to: number, name: FilterName): Covered | null {
  if (from === to) return null;
  const key = `${from} ${to} ${name}`;
  const known = computed.get(key);
  if (known) return known;
  const covered = computeCovered(from, to, name);
  if (computed.size >= MOST_COMPUTED) computed.clear();
  computed.set(key, covered);
  return covered;
}

function computeCovered(from: number, to: number, name: FilterName): Covered {
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

/** So many lines lie in the cache of the processor while all their columns are made. */
const LINES_TOGETHER = 32;

/** Goes down the lines, because then the weights stay the same. Most pixels need two weights, so these stand before the loop. */
function sumLines(data: Uint8ClampedArray, made: Uint8ClampedArray, from: Size, columns: Covered): void {
  const { most, firsts, counts, weights } = columns;
  const [line, madeLine] = [from.width * 3, firsts.length * 3];
  for (let top = 0; top < from.height; top += LINES_TOGETHER) {
    const end = Math.min(from.height, top + LINES_TOGETHER) * madeLine;
    for (let column = 0; column < firsts.length; column += 1) {
      const first = column * most;
      const last = first + (counts[column] as number);
      const weight = weights[first] as number;
      const other = weights[first + 1] as number;
      // Where a pixel has one weight only, the other is 0, and nothing need lie behind the picture.
      const next = last - first < 2 ? 0 : 3;
      let at = top * line + (firsts[column] as number) * 3;
      for (let to = top * madeLine + column * 3; to < end; to += madeLine, at += line) {
        const beside = at + next;
        let red = HALF + pairOf(data, at, weight, beside, other);
        let green = HALF + pairOf(data, at + 1, weight, beside + 1, other);
        let blue = HALF + pairOf(data, at + 2, weight, beside + 2, other);
        for (let of = first + 2, more = at + 6; of < last; of += 1, more += 3) {
          const third = weights[of] as number;
          red = (red + Math.imul(third, data[more] as number)) | 0;
          green = (green + Math.imul(third, data[more + 1] as number)) | 0;
          blue = (blue + Math.imul(third, data[more + 2] as number)) | 0;
        }
        made[to] = red >> BITS;
        made[to + 1] = green >> BITS;
        made[to + 2] = blue >> BITS;
      }
    }
  }
}

/** Adds two lines at a time, so that the sums are read and written half as often. */
function sumColumns(data: Uint8ClampedArray, made: Uint8ClampedArray, stride: number, lines: Covered): void {
  const { most, firsts, counts, weights } = lines;
  const sums = new Int32Array(stride);
  for (let line = 0; line < firsts.length; line += 1) {
    const last = line * most + (counts[line] as number);
    let of = line * most;
    let from = (firsts[line] as number) * stride;
    sums.fill(HALF);
    for (; of + 2 < last; of += 2, from += 2 * stride) {
      const [weight, other] = [weights[of] as number, weights[of + 1] as number];
      for (let at = 0, above = from, below = from + stride; at < stride; at += 1, above += 1, below += 1)
        sums[at] = (sums[at] as number) + pairOf(data, above, weight, below, other);
    }
    const isOne = last - of < 2;
    const [weight, other] = [weights[of] as number, isOne ? 0 : (weights[of + 1] as number)];
    const [next, to] = [isOne ? from : from + stride, line * stride];
    for (let at = 0, above = from, below = next; at < stride; at += 1, above += 1, below += 1)
      made[to + at] = ((sums[at] as number) + pairOf(data, above, weight, below, other)) >> BITS;
  }
}

function pairOf(data: Uint8ClampedArray, one: number, weight: number, other: number, otherWeight: number): number {
  return Math.imul(weight, data[one] as number) + Math.imul(otherWeight, data[other] as number);
}

/** The filters as processors number them; they may also be named. The nearest pixel needs none. */
const NUMBERED: readonly (FilterName | null)[] = [null, 'lanczos', 'bilinear', 'bicubic', 'box', 'hamming'];

/**
 * Returns a kind of picture that changes its size as in Python. The library's own looks at the nearest pixels alone, so that
 * a model would see a large picture with a grain that it was not trained with.
 * @param maxMegapixels limit of a new size: where the shorter side decides, a narrow picture becomes very large
 */
export function sizedImages(Base: RawImageClass, maxMegapixels: number): RawImageClass {
  return class SizedImage extends Base {
    override async resize(
      width: number | null,
      height: number | null,
      options: { readonly resample?: number | string } = {},
    ): Promise<PixelImage> {
      const { resample = 'bilinear' } = options;
      const filter = NUMBERED.find((name, number) => number === resample || name === resample) ?? null;
      const isSide = (side: number | null): side is number => Number.isInteger(side) && Number(side) >= 0;
      if (isSide(width) && isSide(height)) checkNewSize({ width, height }, maxMegapixels);
      if (filter === null || this.channels !== 3 || !isSide(width) || !isSide(height))
        return super.resize(width, height, options);
      const data = resizeAsPillow(this.data as Uint8ClampedArray, this, { width, height }, filter);
      return new SizedImage(data, width, height, 3);
    }

    /** The library would copy the picture to sharp and back for it. Where the picture is too small, that also fills it up. */
    override async center_crop(width: number, height: number): Promise<PixelImage> {
      const [right, below] = [this.width - width, this.height - height];
      if (this.channels !== 3 || !(right >= 0 && below >= 0)) return super.center_crop(width, height);
      const [left, top] = [Math.floor(right / 2), Math.floor(below / 2)];
      const [data, cut] = [this.data as Uint8ClampedArray, new Uint8ClampedArray(width * height * 3)];
      for (let line = 0; line < height; line += 1) {
        const from = ((top + line) * this.width + left) * 3;
        cut.set(data.subarray(from, from + width * 3), line * width * 3);
      }
      return new SizedImage(cut, width, height, 3);
    }
  };
}
