/** Makes the numbers that a model takes of the bytes of a picture, by a table of what each byte of a colour becomes. */

/** Red, green and blue. */
type OfEach<T> = readonly [red: T, green: T, blue: T];

/** Where the numbers of a picture go: as planes of each colour, or side by side. */
export interface ColourPlaces {
  readonly tables: OfEach<Float32Array>;
  /** Places of the colours of the first pixel. */
  readonly starts: OfEach<number>;
  /** From a pixel to the next. */
  readonly step: number;
}

/** The numbers of the last batch, for the next one: the garbage collector and the kernel would take as long as the tables. */
let spare = new Float32Array(0);
/** More would stay in the memory of a worker that has nothing to do. */
const MOST_SPARE = 16 * 1024 * 1024;

/** Returns memory for numbers, which may have others in it. */
export function takeNumbers(length: number): Float32Array {
  const found = spare.length >= length ? spare : new Float32Array(length);
  spare = new Float32Array(0);
  return found.subarray(0, length);
}

/** Gives memory back that nothing uses any more. */
export function giveNumbers(data: ArrayLike<number>): void {
  if (!(data instanceof Float32Array) || data.buffer.byteLength > MOST_SPARE * data.BYTES_PER_ELEMENT) return;
  if (data.buffer.byteLength > spare.byteLength) spare = new Float32Array(data.buffer as ArrayBuffer);
}

/** Puts pixels that lie one after another, from the byte `from`. @param at pixels between those and the first */
export function putPixels(
  bytes: ArrayLike<number>,
  from: number,
  count: number,
  numbers: Float32Array,
  { tables, starts, step }: ColourPlaces,
  at: number,
): void {
  const [reds, greens, blues] = tables;
  let [red, green, blue] = starts;
  red += at * step;
  green += at * step;
  blue += at * step;
  const end = from + count * 3;
  for (let byte = from; byte < end; byte += 3, red += step, green += step, blue += step) {
    numbers[red] = reds[bytes[byte] as number] as number;
    numbers[green] = greens[bytes[byte + 1] as number] as number;
    numbers[blue] = blues[bytes[byte + 2] as number] as number;
  }
}
