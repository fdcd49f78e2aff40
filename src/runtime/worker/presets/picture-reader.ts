/** Makes of a picture the tensors that an ONNX model takes. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { sizeOf } from '../../../core/tensor.ts';
import { beyondLimit } from '../media/files.ts';
import { type Picture, Pictures } from '../media/pictures.ts';
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
const MILLION = 1_000_000;

export class PictureReader {
  readonly #sharp: OpenSharp;
  readonly #pictures: Pictures;
  readonly #ports: Ports;
  readonly #input: PictureInput;
  readonly #values: TaskValues;
  /** For each colour of the input, what each byte becomes. */
  readonly #tables: readonly Float32Array[];

  constructor(sharp: OpenSharp, ports: Ports, input: PictureInput, values: TaskValues) {
    this.#sharp = sharp;
    this.#pictures = new Pictures(sharp, Number(values['maxMegapixels']));
    this.#ports = ports;
    this.#input = input;
    this.#values = values;
    this.#tables = Array.from({ length: input.colours }, (_, colour) => tableFor(colour, input, values));
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
    const most = Number(this.#values['maxMegapixels']);
    if (to.width * to.height > most * MILLION)
      throw beyondLimit(
        `the picture is too narrow to crop: it would have ${to.width} x ${to.height} pixels (maxMegapixels)`,
      );
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
    for (const colour of this.#tables.keys()) this.#putColour(elements, colour, data, placement);
    const dims = isPlanar ? [1, colours, height, width] : [1, height, width, colours];
    return { dims, data: toElements(type, elements) as TensorElements };
  }

  #putColour(elements: Float32Array, colour: number, data: ArrayLike<number>, { resized, left, top }: Placement): void {
    const { width, height, colours, isPlanar } = this.#input;
    const table = this.#tables[colour] as Float32Array;
    const [start, step] = isPlanar ? [colour * width * height, 1] : [colour, colours];
    if (resized.width < width || resized.height < height) {
      const bar = table[Number(this.#values['bars'])] as number;
      for (let at = 0; at < width * height; at += 1) elements[start + at * step] = bar;
    }
    const source = this.#values['colours'] === 'bgr' ? 2 - colour : colour;
    const byteAt = colours === 1 ? greyOf : (bytes: ArrayLike<number>, at: number) => bytes[at + source] as number;
    const [x0, x1] = [Math.max(0, left), Math.min(width, left + resized.width)];
    for (let y = Math.max(0, top); y < Math.min(height, top + resized.height); y += 1) {
      let from = ((y - top) * resized.width + x0 - left) * 3;
      let to = start + (y * width + x0) * step;
      for (let x = x0; x < x1; x += 1, from += 3, to += step) elements[to] = table[byteAt(data, from)] as number;
    }
  }
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

/** The brightness of a pixel as ITU-R 601 has it, rounded. */
function greyOf(data: ArrayLike<number>, at: number): number {
  const [red, green, blue] = [data[at], data[at + 1], data[at + 2]] as [number, number, number];
  return (red * 19_595 + green * 38_470 + blue * 7471 + 0x8000) >> 16;
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
