/** Makes of a picture the tensors that an ONNX model takes. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { sizeOf } from '../../../core/tensor.ts';
import { checkNewSize, type Picture, Pictures } from '../media/pictures.ts';
import { type ColourPlaces, putPixels } from '../media/planes.ts';
import { makeElements, type TensorElements, toElements } from '../onnx/elements.ts';
import type { Ports } from '../onnx/ports.ts';
import type { ItemPart, ItemParts } from '../onnx/read-item.ts';
import type { OpenSharp } from '../tasks/library.ts';
import type { PictureInput } from './picture-input.ts';
import { type Placement, place, type Size } from './placement.ts';

/** A picture as the model takes it. */
export interface PlacedPicture extends ItemParts {
  readonly placement: Placement;
}

type Colours = readonly number[];

/** The mean that is taken from each colour, in numbers from 0 to 1, and the divisor of the rest: red, green, blue. */
const VALUES: Readonly<Record<string, readonly [mean: Colours, std: Colours]>> = {
  unit: [[0], [1]],
  signed: [[0.5], [0.5]],
  bytes: [[0], [1 / 255]],
  imagenet: [
    [0.485, 0.456, 0.406],
    [0.229, 0.224, 0.225],
  ],
  clip: [
    [0.48145466, 0.4578275, 0.40821073],
    [0.26862954, 0.26130258, 0.27577711],
  ],
};
/** The filters of sharp by the names of Pillow's, which they agree with. */
const KERNELS: Readonly<Record<string, string>> = { bilinear: 'linear', bicubic: 'cubic', lanczos: 'lanczos3' };

export class PictureReader {
  readonly #sharp: OpenSharp;
  readonly #pictures: Pictures;
  readonly #ports: Ports;
  readonly #input: PictureInput;
  readonly #values: TaskValues;
  /** For each colour of the input, what each byte becomes. */
  readonly #tables: readonly Float32Array[];
  /** null: the input is grey. */
  readonly #places: ColourPlaces | null;

  constructor(sharp: OpenSharp, ports: Ports, input: PictureInput, values: TaskValues) {
    this.#sharp = sharp;
    this.#pictures = new Pictures(sharp, Number(values['maxMegapixels']));
    this.#ports = ports;
    this.#input = input;
    this.#values = values;
    this.#tables = Array.from({ length: input.colours }, (_, colour) => tableFor(colour, input, values));
    this.#places = input.colours === 1 ? null : colourPlaces(input, this.#tables, values['colours'] === 'bgr');
  }

  /** @throws ModeletError `invalid_input` for what is no picture, `payload_too_large` for one with too many pixels */
  async read(value: unknown): Promise<PlacedPicture> {
    const picture = await this.#pictures.read(value);
    const { width, height } = picture;
    const placement = place({ width, height }, this.#input, this.#values['resize'], Number(this.#values['cropShare']));
    const data = await this.#resized(picture, placement.resized);
    const parts = this.#ports.inputs.map(({ shape, type }, at): ItemPart => {
      if (at === this.#input.at) return this.#tensor(data, placement);
      const { width: wide, height: tall } = this.#input;
      const dims = [
        1,
        ...[tall, wide].map((length, axis) => (Number.isInteger(shape[axis + 1]) ? Number(shape[axis + 1]) : length)),
      ];
      // The mask of pixels that are no bars: all of them count.
      const filling = type.endsWith('int64') ? 1n : 1;
      return { dims, data: makeElements(type, sizeOf(dims)).fill(filling as never) as ItemPart['data'] };
    });
    return { parts, isRow: true, placement };
  }

  async #resized({ data, ...from }: Picture, to: Size): Promise<ArrayLike<number>> {
    checkNewSize(to, Number(this.#values['maxMegapixels']));
    const { resample, resize } = this.#values;
    if (resample === 'opencv' || (resample === 'auto' && resize === 'letterbox')) return betweenNearest(data, from, to);
    // If a side becomes longer, sharp moves the picture by half a pixel.
    const smaller = { width: Math.min(from.width, to.width), height: Math.min(from.height, to.height) };
    const kernel = KERNELS[String(resample)] ?? 'linear';
    return betweenNearest(await this.#shrunk(data, from, smaller, kernel), smaller, to);
  }

  async #shrunk(data: Picture['data'], from: Size, to: Size, kernel: string): Promise<ArrayLike<number>> {
    if (isSame(from, to)) return data;
    const opened = this.#sharp(data, { raw: { ...from, channels: 3 }, limitInputPixels: false });
    const made = opened.resize(to.width, to.height, { fit: 'fill', kernel }).raw();
    return (await made.toBuffer({ resolveWithObject: true })).data;
  }

  #tensor(data: ArrayLike<number>, placement: Placement): ItemPart {
    const { width, height, colours, isPlanar, type } = this.#input;
    const elements = new Float32Array(colours * width * height);
    this.#putBars(elements, placement);
    const { resized, left, top } = placement;
    const [x0, x1] = [Math.max(0, left), Math.min(width, left + resized.width)];
    for (let y = Math.max(0, top); y < Math.min(height, top + resized.height); y += 1) {
      const from = ((y - top) * resized.width + x0 - left) * 3;
      const at = y * width + x0;
      if (this.#places) putPixels(data, from, x1 - x0, elements, this.#places, at);
      else putGrey(data, from, x1 - x0, elements, this.#tables[0] as Float32Array, at);
    }
    const dims = isPlanar ? [1, colours, height, width] : [1, height, width, colours];
    return { dims, data: toElements(type, elements) as TensorElements };
  }

  #putBars(elements: Float32Array, { resized }: Placement): void {
    const { width, height } = this.#input;
    if (resized.width >= width && resized.height >= height) return;
    const bars = Number(this.#values['bars']);
    for (const [colour, table] of this.#tables.entries()) {
      const { start, step } = placesOf(colour, this.#input);
      for (let at = 0; at < width * height; at += 1) elements[start + at * step] = table[bars] as number;
    }
  }
}

/** Where the numbers of a colour lie. @param colour of the input, in its own order */
function placesOf(colour: number, { width, height, colours, isPlanar }: PictureInput): { start: number; step: number } {
  return isPlanar ? { start: colour * width * height, step: 1 } : { start: colour, step: colours };
}

/** @param tables of the colours in the order of the input */
function colourPlaces(input: PictureInput, tables: readonly Float32Array[], isBlueFirst: boolean): ColourPlaces {
  const [red, green, blue] = isBlueFirst ? ([2, 1, 0] as const) : ([0, 1, 2] as const);
  const table = (colour: number): Float32Array => tables[colour] as Float32Array;
  const start = (colour: number): number => placesOf(colour, input).start;
  return {
    tables: [table(red), table(green), table(blue)],
    starts: [start(red), start(green), start(blue)],
    step: placesOf(red, input).step,
  };
}

/** @param colour of the input, in its own order */
function tableFor(colour: number, { type, colours }: PictureInput, values: TaskValues): Float32Array {
  const bytes = Float32Array.from({ length: 256 }, (_, byte) => byte);
  const given = values['mean'] as Colours;
  const isFraction = type.startsWith('float');
  if (!isFraction || (given.length === 0 && values['values'] === 'bytes')) return bytes;
  const [means, stds] = (given.length > 0 ? [given, values['std']] : VALUES[String(values['values'])]) as [
    Colours,
    Colours,
  ];
  const own = colours === 3 && values['colours'] === 'bgr' ? 2 - colour : colour;
  const [mean, std] = [means[own] ?? (means[0] as number), stds[own] ?? (stds[0] as number)];
  return bytes.map((byte) => (byte / 255 - mean) / std);
}

/** Puts the brightness of pixels as ITU-R 601 has it, rounded. */
function putGrey(
  bytes: ArrayLike<number>,
  from: number,
  count: number,
  numbers: Float32Array,
  table: Float32Array,
  at: number,
): void {
  for (let pixel = 0, byte = from; pixel < count; pixel += 1, byte += 3) {
    const [red, green, blue] = [bytes[byte], bytes[byte + 1], bytes[byte + 2]] as [number, number, number];
    numbers[at + pixel] = table[(red * 19_595 + green * 38_470 + blue * 7471 + 0x8000) >> 16] as number;
  }
}

/** Computes each pixel from the four nearest ones, however much smaller the picture becomes. */
function betweenNearest(data: ArrayLike<number>, from: Size, to: Size): ArrayLike<number> {
  if (isSame(from, to)) return data;
  const columns = nearest(from.width, to.width);
  const pixels = new Uint8ClampedArray(to.width * to.height * 3);
  let at = 0;
  for (const { first, second, share } of nearest(from.height, to.height)) {
    const [above, below] = [first * from.width, second * from.width];
    for (const column of columns) {
      const [left, right] = [column.first, column.second];
      const corners = [(above + left) * 3, (above + right) * 3, (below + left) * 3, (below + right) * 3] as const;
      const [a, b, c, d] = corners;
      for (let colour = 0; colour < 3; colour += 1, at += 1) {
        const upper = (data[a + colour] as number) * (1 - column.share) + (data[b + colour] as number) * column.share;
        const lower = (data[c + colour] as number) * (1 - column.share) + (data[d + colour] as number) * column.share;
        pixels[at] = upper * (1 - share) + lower * share;
      }
    }
  }
  return pixels;
}

function isSame(one: Size, other: Size): boolean {
  return one.width === other.width && one.height === other.height;
}

interface Between {
  readonly first: number;
  readonly second: number;
  /** How much of the second there is. */
  readonly share: number;
}

function nearest(from: number, to: number): Between[] {
  return Array.from({ length: to }, (_, at) => {
    const place = Math.min(Math.max(((at + 0.5) * from) / to - 0.5, 0), from - 1);
    const first = Math.floor(place);
    return { first, second: Math.min(first + 1, from - 1), share: place - first };
  });
}
