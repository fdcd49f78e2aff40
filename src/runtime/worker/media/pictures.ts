/** Reads pictures: files of any kind that sharp decodes, turned as their EXIF data say, and pixels. */
import { types } from 'node:util';
import { asError } from '../../../core/errors.ts';
import { counted } from '../../../core/figures.ts';
import { isFields } from '../../../core/objects.ts';
import { isSize } from '../../../core/pictures/png.ts';
import type { Size } from '../presets/placement.ts';
import type { OpenSharp } from '../tasks/library.ts';
import { beyondLimit, fileBytes, type InputFields, notTaken } from './files.ts';

const MILLION = 1_000_000;
const WHAT =
  'a picture is the bytes of a file, base64, a data URL, {data, width, height, channels} with bytes, or an object of sharp or Jimp';

/** A decoded picture: three bytes for each pixel, red, green and blue. */
export interface Picture {
  readonly data: Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
}

/** Pixels as they came: neither their number nor their kind is checked. */
export interface Pixels {
  readonly data: unknown;
  readonly width: number;
  readonly height: number;
  /** Absent: as many as there are bytes for. */
  readonly channels?: number | undefined;
}

export class Pictures {
  readonly #sharp: OpenSharp;
  readonly #mostPixels: number;

  constructor(sharp: OpenSharp, maxMegapixels: number) {
    this.#sharp = sharp;
    this.#mostPixels = maxMegapixels * MILLION;
  }

  /** @throws ModeletError `invalid_input` for what is no picture, `payload_too_large` for one with too many pixels */
  read(value: unknown): Picture | Promise<Picture> {
    const pixels = isFields(value) ? pixelsIn(value) : null;
    if (pixels) return this.#raw(pixels);
    const bytes = fileBytes(value);
    if (bytes === null) throw notTaken(typeof value === 'string' ? `the text is not base64: ${WHAT}` : WHAT);
    return this.#decode(bytes);
  }

  async #decode(bytes: Uint8Array): Promise<Picture> {
    try {
      // An empty file is refused here already.
      const opened = this.#sharp(bytes, { failOn: 'error', limitInputPixels: Math.ceil(this.#mostPixels) });
      const { data, info } = await opened.rotate().toColourspace('srgb').raw().toBuffer({ resolveWithObject: true });
      this.#checkSize(info.width, info.height);
      return { data: inColour(data, info.channels), width: info.width, height: info.height };
    } catch (thrown) {
      await this.#checkFile(bytes);
      throw notTaken(`the picture cannot be read: ${asError(thrown).message}`, thrown);
    }
  }

  /** Finds out why a file was refused: sharp does not tell how large a picture is that it does not read. */
  async #checkFile(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    const opened = this.#sharp(bytes, { limitInputPixels: false });
    const { width = 0, height = 0 } = await opened.metadata().catch(() => ({ width: 1, height: 1 }));
    this.#checkSize(width, height);
  }

  #raw({ data, width, height, channels }: Pixels): Picture {
    this.#checkSize(width, height);
    const elements = Array.isArray(data) ? checkedBytes(data) : data;
    const isBytes = types.isUint8Array(elements) || types.isUint8ClampedArray(elements);
    if (!isBytes) throw notTaken('the pixels must be bytes: a Buffer, a Uint8Array, or whole numbers from 0 to 255');
    const found = channels ?? elements.length / (width * height);
    if (![1, 2, 3, 4].includes(found) || elements.length !== width * height * found)
      throw notTaken(
        `${elements.length} bytes are not ${width} x ${height} pixels of ${channels === undefined ? '1 to 4 channels' : counted(channels, 'channel')}`,
      );
    return { data: inColour(elements, found), width, height };
  }

  #checkSize(width: number, height: number): void {
    if (!isSize(width, height)) throw notTaken(`the picture has no size: ${width} x ${height}`);
    if (width * height <= this.#mostPixels) return;
    throw beyondLimit(
      `the picture has ${width} x ${height} pixels; the limit is ${this.#mostPixels / MILLION} million (maxMegapixels)`,
    );
  }
}

/**
 * Checks the size that a model wants.
 * @throws ModeletError `invalid_input` if a narrow picture would lose a side, `payload_too_large` if it would become too large
 */
export function checkNewSize({ width, height }: Size, maxMegapixels: number): void {
  const size = `the picture is too narrow: it would have ${width} x ${height} pixels`;
  if (width * height === 0) throw notTaken(size);
  if (width * height > maxMegapixels * MILLION) throw beyondLimit(`${size} (maxMegapixels)`);
}

/** Finds pixels in an object: its plain fields, that of Jimp, of sharp, or a tensor of the shape [height, width, channels]. */
export function pixelsIn(value: InputFields): Pixels | null {
  const { bitmap, info, data, dims } = value;
  if (isFields(bitmap)) return pixelsIn({ ...bitmap });
  if (isFields(info)) return pixelsIn({ ...info, data });
  if (Array.isArray(dims) && dims.length === 3) {
    const [height, width, channels] = dims as number[];
    return pixelsIn({ data, width, height, channels });
  }
  const { width, height, channels } = value;
  if (typeof width !== 'number' || typeof height !== 'number') return null;
  return { data, width, height, channels: typeof channels === 'number' ? channels : undefined };
}

function checkedBytes(data: readonly unknown[]): Uint8ClampedArray {
  const isByte = (one: unknown): boolean => Number.isInteger(one) && (one as number) >= 0 && (one as number) <= 255;
  if (!data.every(isByte)) throw notTaken('the pixels must be whole numbers from 0 to 255');
  return Uint8ClampedArray.from(data as number[]);
}

/** Returns the pixels with three colours, without what is transparent. @param channels 1 and 2: grey; 2 and 4: with it */
function inColour(data: Uint8Array | Uint8ClampedArray, channels: number): Uint8ClampedArray {
  if (channels === 3) return new Uint8ClampedArray(data.buffer, data.byteOffset, data.length);
  const pixels = new Uint8ClampedArray((data.length / channels) * 3);
  const [green, blue] = channels === 4 ? [1, 2] : [0, 0];
  for (let from = 0, to = 0; from < data.length; from += channels, to += 3) {
    pixels[to] = data[from] as number;
    pixels[to + 1] = data[from + green] as number;
    pixels[to + 2] = data[from + blue] as number;
  }
  return pixels;
}
