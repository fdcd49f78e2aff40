/**
 * Makes a picture that browsers show, with results drawn over it: an SVG document that has the picture in it. Nothing is
 * decoded: a file stays as it is, and pixels become a PNG file.
 */
import { types } from 'node:util';
import { ModeletError } from '../../core/errors.ts';
import { BYTES_PER_MB } from '../../core/model.ts';
import { isFields } from '../../core/objects.ts';
import { drawResults, svgDocument } from '../../core/pictures/drawing.ts';
import { encodePng, isSize, type PixelPicture, shrink } from '../../core/pictures/png.ts';
import { fileBytes } from '../../runtime/worker/media/files.ts';
import { pixelsIn } from '../../runtime/worker/media/pictures.ts';
import { pictureHead } from './picture-size.ts';

export interface DrawnPicture {
  readonly svg: string;
  readonly width: number;
  readonly height: number;
}

export interface DrawingLimits {
  /** Largest file, in MB. */
  readonly maxMb: number;
  /** Width at which the drawing is shown, in px: the letters have a readable size there. */
  readonly shownWidth: number;
}

/** Pixels on the longer side of a picture that arrives as pixels. */
const LONGEST_SIDE = 480;
/** A browser decodes the file, and a small file may have many pixels. */
const MOST_MEGAPIXELS = 50;
/** Height of the letters, in px as shown. */
const LETTERS = 11;

interface PictureFile {
  readonly type: string;
  readonly bytes: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** @throws ModeletError `invalid_input` for anything but a picture, `payload_too_large` for a picture beyond a limit */
export async function drawPicture(
  picture: unknown,
  results: unknown,
  { maxMb, shownWidth }: DrawingLimits,
): Promise<DrawnPicture> {
  const { type, bytes, width, height } = await pictureFile(picture, maxMb);
  const letters = (LETTERS * width) / Math.min(width, shownWidth);
  const drawing = await drawResults(results, { width, height, letters });
  const href = `data:${type};base64,${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')}`;
  return { svg: svgDocument(width, height, href, drawing), width, height };
}

/** Returns an SVG document as a data URL: shorter than in base64, because the picture in it is in base64 already. */
export function dataUrlOf(svg: string): string {
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

async function pictureFile(value: unknown, maxMb: number): Promise<PictureFile> {
  const pixels = pixelsOf(value);
  if (pixels) {
    const { width, height } = pixels;
    return { type: 'image/png', bytes: await encodePng(shrink(pixels, LONGEST_SIDE)), width, height };
  }
  const bytes = fileBytes(value);
  if (!bytes) throw new ModeletError('invalid_input', value === undefined ? 'no picture' : 'not a picture');
  if (bytes.byteLength > maxMb * BYTES_PER_MB)
    throw new ModeletError('payload_too_large', `${(bytes.byteLength / BYTES_PER_MB).toFixed(1)} MB, limit ${maxMb}`);
  const head = pictureHead(bytes);
  if (!head) throw new ModeletError('invalid_input', 'not a JPEG, PNG, WebP or GIF file');
  const megapixels = (head.width * head.height) / 1_000_000;
  if (megapixels > MOST_MEGAPIXELS)
    throw new ModeletError('payload_too_large', `${Math.round(megapixels)} megapixels, limit ${MOST_MEGAPIXELS}`);
  return { bytes, ...head };
}

/** Returns the pixels of an object that has some, as known models take it; null for anything else. */
function pixelsOf(value: unknown): PixelPicture | null {
  const pixels = isFields(value) ? pixelsIn(value) : null;
  if (!pixels) return null;
  const { data, width, height, channels } = pixels;
  if (!types.isUint8Array(data) && !types.isUint8ClampedArray(data)) return null;
  const found = channels ?? data.length / (width * height);
  const isPicture = isSize(width, height) && [1, 2, 3, 4].includes(found) && data.length === width * height * found;
  return isPicture ? { data, width, height, channels: found } : null;
}
