/**
 * Lets the processors of the library make the tensor of a batch in one pass over the bytes of its pictures. The library
 * makes an array of numbers for each step of each picture, and copies them all into the batch; the numbers are the same.
 */
import type { Size } from '../presets/placement.ts';
import type { ImageProcessor, Library, PixelImage, TaskPipeline } from '../tasks/library.ts';
import { type ColourPlaces, putPixels, takeNumbers } from './planes.ts';

const quickened = new WeakSet<ImageProcessor>();

/** Pictures in the size of the model, by the pictures as they were decoded. */
const sizedAhead = new WeakMap<PixelImage, PixelImage>();

/** Processors that do more than usual, and pictures of unlike sizes or kinds, still take the library's way. */
export function quickenProcessors({ ImageProcessor, Tensor }: Pick<Library, 'ImageProcessor' | 'Tensor'>): void {
  const { prototype: base } = ImageProcessor;
  if (quickened.has(base)) return;
  quickened.add(base);
  const { _call: usual } = base;
  base._call = async function quick(given, ...more) {
    const images = Array.isArray(given) ? (given as readonly PixelImage[]) : [given as PixelImage];
    const tables = isUsual(this, base) && images.every(isInColour) ? tablesOf(this) : null;
    if (tables === null) return usual.call(this, given, ...more);
    const sized: PixelImage[] = [];
    for (const image of images) sized.push(sizedAhead.get(image) ?? (await sizedBy(this, image)));
    const padded = paddedSize(this, sized);
    if (padded === null) return usual.call(this, given, ...more);
    const dims = ({ width, height }: Size): readonly [number, number] => [height, width];
    const pixels = planesOf(sized, padded, tables, this.do_flip_channel_order);
    return {
      pixel_values: new Tensor('float32', pixels, [sized.length, 3, ...dims(padded)]),
      original_sizes: images.map(dims),
      reshaped_input_sizes: sized.map(dims),
    };
  };
}

/**
 * Returns a function that changes the size of a picture before the processor of the pipeline does it. Called for each picture
 * as soon as it is decoded, it works while other threads decode the rest of the batch.
 */
export function sizerAhead(
  { ImageProcessor: { prototype: base } }: Pick<Library, 'ImageProcessor'>,
  { processor }: TaskPipeline,
): (image: PixelImage) => Promise<void> {
  const own = processor?.image_processor;
  if (!own || !isUsual(own, base) || tablesOf(own) === null) return async () => {};
  return async (image) => {
    sizedAhead.set(image, await sizedBy(own, image));
  };
}

const isUsual = (processor: ImageProcessor, base: ImageProcessor): boolean =>
  processor.preprocess === base.preprocess && processor.pad_image === base.pad_image;

const isInColour = ({ data, channels }: PixelImage): boolean => channels === 3 && data instanceof Uint8ClampedArray;

/** What each byte of a colour becomes: rounded after each step, as in the library. null: the processor does more. */
function tablesOf(processor: ImageProcessor): ColourPlaces['tables'] | null {
  const { do_crop_margin, do_thumbnail, do_center_crop, crop_size } = processor;
  if (do_crop_margin || do_thumbnail || (do_center_crop && !crop_size)) return null;
  const { do_rescale, rescale_factor, do_normalize } = processor;
  const [means, stds] = [processor.image_mean, processor.image_std].map((one) =>
    Array.isArray(one) ? (one as number[]) : Array.from({ length: 3 }, () => one as number),
  ) as [number[], number[]];
  if (do_normalize && (means.length !== 3 || stds.length !== 3)) return null;
  const tableOf = (colour: number): Float32Array => {
    const bytes = Float32Array.from({ length: 256 }, (_, byte) => byte);
    const scaled = do_rescale ? bytes.map((byte) => rescale_factor * byte) : bytes;
    const [mean, std] = [means[colour] as number, stds[colour] as number];
    return do_normalize ? scaled.map((value) => (value - mean) / std) : scaled;
  };
  return [tableOf(0), tableOf(1), tableOf(2)];
}

/** Changes the size of a picture, and cuts out its middle, as the processor does it. */
async function sizedBy(processor: ImageProcessor, image: PixelImage): Promise<PixelImage> {
  const sized = processor.do_resize ? await processor.resize(image) : image;
  const { do_center_crop, crop_size } = processor;
  if (!do_center_crop) return sized;
  const { width, height } = typeof crop_size === 'object' ? crop_size : sides(crop_size as number);
  return sized.center_crop(width, height);
}

const sides = (side: number): Size => ({ width: side, height: side });

/** Returns the size of all pictures with the zeros behind and below them, or null if they cannot be in one tensor. */
function paddedSize(
  { do_pad, pad_size, size_divisibility: multiple }: ImageProcessor,
  images: readonly PixelImage[],
): Size | null {
  const [first] = images;
  if (!first) return null;
  const { width, height } = first;
  const isAlike = (one: PixelImage): boolean => isInColour(one) && one.width === width && one.height === height;
  if (!images.every(isAlike)) return null;
  const cover = (side: number): number => (multiple ? Math.ceil(side / multiple) * multiple : side);
  if (!do_pad) return { width, height };
  if (!pad_size) return { width: cover(width), height: cover(height) };
  const padded =
    pad_size === 'square'
      ? sides(Math.max(width, height))
      : typeof pad_size === 'number'
        ? sides(pad_size)
        : (pad_size as Size);
  return padded.width >= width && padded.height >= height ? padded : null;
}

function planesOf(
  images: readonly PixelImage[],
  { width, height }: Size,
  tables: ColourPlaces['tables'],
  isBlueFirst: boolean,
): Float32Array {
  const places = width * height;
  const starts = isBlueFirst ? ([2 * places, places, 0] as const) : ([0, places, 2 * places] as const);
  const pixels = takeNumbers(images.length * 3 * places);
  for (const [index, image] of images.entries()) {
    const at = index * 3 * places;
    const isFilled = image.width === width;
    if (!isFilled || image.height < height) pixels.fill(0, at, at + 3 * places);
    const [lines, length] = isFilled ? [1, image.width * image.height] : [image.height, image.width];
    for (let line = 0; line < lines; line += 1)
      putPixels(image.data, line * length * 3, length, pixels, { tables, starts, step: 1 }, at + line * width);
  }
  return pixels;
}
