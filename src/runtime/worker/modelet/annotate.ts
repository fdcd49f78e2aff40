/** Draws results into a picture, for the code of stages. Needs sharp in the user directory. */
import { drawResults, svgOverlay } from '../../../core/pictures/drawing.ts';
import { Pictures } from '../media/pictures.ts';
import { loadSharp } from '../tasks/library.ts';

export interface AnnotateOptions {
  /** Kind of the file that is returned. Default: `jpeg`. */
  readonly format?: 'jpeg' | 'png' | 'webp';
  /** Height of the letters, in pixels. Default: a fiftieth of the longer side, at least 12. */
  readonly letters?: number;
  /** Largest picture, in millions of pixels. Default: 50. */
  readonly maxMegapixels?: number;
}

/** The part of sharp that this file uses beside decoding. */
interface Composer {
  composite(over: readonly { readonly input: Buffer }[]): Composer;
  removeAlpha(): Composer;
  toFormat(format: string): Composer;
  toBuffer(): Promise<Buffer>;
}

/**
 * Draws boxes with labels, masks, labels with bars, or depth, in the forms that known models give, into a picture.
 * @param picture the bytes of a file, base64, a data URL, `{data, width, height, channels}`, or an object of sharp or Jimp
 * @param results anything else than these forms leaves the picture as it is
 * @returns the bytes of a picture file, a Buffer
 * @throws ModeletError `invalid_input` for anything but a picture, `payload_too_large` for one with too many pixels; Error if
 *   sharp is not installed
 */
export async function annotate(picture: unknown, results: unknown, options: AnnotateOptions = {}): Promise<Uint8Array> {
  const sharp = loadSharp(process.cwd());
  const { data, width, height } = await new Pictures(sharp, options.maxMegapixels ?? 50).read(picture);
  const { format = 'jpeg', letters = Math.max(12, Math.max(width, height) / 50) } = options;
  const on = { width, height, letters };
  const drawing = await drawResults(results, on);
  const raw = { width, height, channels: 3 };
  const opened = sharp(data, { raw, limitInputPixels: false }) as unknown as Composer;
  const drawn = drawing === '' ? opened : opened.composite([{ input: Buffer.from(svgOverlay(on, drawing)) }]);
  return drawn.removeAlpha().toFormat(format).toBuffer();
}
