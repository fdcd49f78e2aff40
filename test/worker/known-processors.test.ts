/** The tensors that a batch of pictures becomes in one pass: the same numbers as by the library's own steps. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { giveNumbers, takeNumbers } from '../../src/runtime/worker/media/planes.ts';
import { quickenProcessors, sizerAhead } from '../../src/runtime/worker/media/processor.ts';
import { sizedImages } from '../../src/runtime/worker/media/resize.ts';
import type {
  ImageProcessor,
  Library,
  LibraryTensor,
  PixelImage,
  RawImageClass,
  TaskPipeline,
} from '../../src/runtime/worker/tasks/library.ts';
import { loadLibrary } from '../../src/runtime/worker/tasks/library.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

interface Made {
  readonly pixel_values: LibraryTensor;
  readonly pixel_mask?: LibraryTensor;
  readonly original_sizes: unknown;
  readonly reshaped_input_sizes: unknown;
}

type Processor = new (config: object) => ImageProcessor & ((images: readonly PixelImage[]) => Promise<Made>);

/** Of three pictures with all their padding. */
const MOST_NUMBERS = 3 * 3 * 60 * 60;

let library: Library;
let Image: RawImageClass;
let usual: ImageProcessor['_call'];
let quick: ImageProcessor['_call'];
/** Pictures that the library has made planes of by itself. */
let steps = 0;
/** Pictures that have got another size. */
let sizings = 0;

before(async () => {
  ({ library } = await loadLibrary(repositoryRoot, 1));
  const Sized = sizedImages(library.RawImage, 1);
  Image = class extends Sized {
    override resize(...to: Parameters<PixelImage['resize']>): Promise<PixelImage> {
      sizings += 1;
      return super.resize(...to);
    }
  };
  usual = library.ImageProcessor.prototype._call;
  quickenProcessors(library);
  quick = library.ImageProcessor.prototype._call;
  quickenProcessors(library);
  assert.equal(library.ImageProcessor.prototype._call, quick);
  const { prototype } = library.Tensor as unknown as { prototype: { permute(...axes: number[]): LibraryTensor } };
  const { permute } = prototype;
  prototype.permute = function counted(...axes) {
    steps += 1;
    return permute.apply(this, axes);
  };
});

function processorOf(type: string, config: object): InstanceType<Processor> {
  return new ((library as object as Record<string, unknown>)[type] as Processor)(config);
}

/** Changes the sizes of pictures as it is done while others are being decoded. */
async function sizedAhead(processor: ImageProcessor, images: readonly PixelImage[]): Promise<readonly PixelImage[]> {
  const sizeAhead = sizerAhead(library, { processor: { image_processor: processor } } as TaskPipeline);
  await Promise.all(images.map(sizeAhead));
  return images;
}

/** Returns what a processor makes of pictures, in the library's steps and in one pass, and how many took these steps. */
async function made(type: string, config: object, images: () => readonly PixelImage[]): Promise<[Made, Made, number]> {
  const { prototype } = library.ImageProcessor;
  const processor = processorOf(type, config);
  try {
    prototype._call = usual;
    const wanted = await processor(images());
    prototype._call = quick;
    steps = 0;
    giveNumbers(new Float32Array(MOST_NUMBERS).fill(Number.NaN));
    const found = await processor(images());
    const stepsTaken = steps;
    giveNumbers(new Float32Array(MOST_NUMBERS).fill(Number.NaN));
    assertSame(await processor(await sizedAhead(processor, images())), wanted);
    return [wanted, found, stepsTaken];
  } finally {
    prototype._call = quick;
  }
}

function assertSame(found: Made, wanted: Made): void {
  const numbers = ({ data, dims }: LibraryTensor): object => {
    const { buffer, byteOffset, byteLength } = data as Float32Array;
    return { dims: [...dims], bytes: Buffer.from(buffer, byteOffset, byteLength).toString('base64') };
  };
  assert.deepEqual(Object.keys(found), Object.keys(wanted));
  assert.deepEqual(numbers(found.pixel_values), numbers(wanted.pixel_values));
  assert.deepEqual(found.original_sizes, wanted.original_sizes);
  assert.deepEqual(found.reshaped_input_sizes, wanted.reshaped_input_sizes);
  if (wanted.pixel_mask) assert.deepEqual(found.pixel_mask?.dims, wanted.pixel_mask.dims);
}

function pictures(count: number, width: number, height: number): PixelImage[] {
  return Array.from({ length: count }, (_, of) => {
    const data = Uint8ClampedArray.from({ length: width * height * 3 }, (_, at) => (at * 53 + of * 17) % 256);
    return new Image(data, width, height, 3);
  });
}

const side = fc.integer({ min: 1, max: 40 });
const size = fc.record({ width: side, height: side });
const shares = (least: number): fc.Arbitrary<number | number[]> => {
  const share = fc.double({ min: least, max: 2, noNaN: true });
  return fc.oneof(share, fc.array(share, { minLength: 3, maxLength: 3 }));
};

const CONFIG = fc.record(
  {
    size: fc.oneof(size, fc.record({ shortest_edge: side })),
    do_resize: fc.boolean(),
    resample: fc.integer({ min: 0, max: 5 }),
    do_rescale: fc.boolean(),
    rescale_factor: fc.constantFrom(1 / 255, 1 / 127.5, 0.1),
    do_normalize: fc.boolean(),
    image_mean: shares(0),
    image_std: shares(0.1),
    do_center_crop: fc.boolean(),
    crop_size: fc.oneof(size, side),
    do_flip_channel_order: fc.boolean(),
    do_pad: fc.boolean(),
    pad_size: fc.oneof(
      fc.record({ width: fc.integer({ min: 40, max: 60 }), height: fc.integer({ min: 40, max: 60 }) }),
      fc.constant('square'),
    ),
    size_divisor: fc.constant(16),
  },
  { requiredKeys: ['size', 'do_normalize', 'image_mean', 'image_std', 'crop_size'] },
);

test('a batch of pictures becomes the numbers of the library, whatever the usual steps of its processor', async () => {
  const types = fc.constantFrom('ViTImageProcessor', 'DetrImageProcessor', 'ConvNextImageProcessor');
  let passes = 0;
  await fc.assert(
    fc.asyncProperty(types, CONFIG, fc.integer({ min: 1, max: 3 }), size, async (type, config, count, given) => {
      // A processor of this type knows no other size.
      const own = type === 'ConvNextImageProcessor' ? { ...config, size: { shortest_edge: 20 } } : config;
      const images = (): PixelImage[] => pictures(count, given.width, given.height);
      const attempts = await made(type, own, images).catch((thrown: unknown) => {
        // Both refuse: a picture that would become too small.
        assert.match(String(thrown), /Error/);
        return null;
      });
      if (attempts === null) return;
      const [wanted, found, tookSteps] = attempts;
      assertSame(found, wanted);
      if (tookSteps === 0) passes += 1;
    }),
    { numRuns: 300 },
  );
  assert.ok(passes > 200, `only ${passes} of 300 batches were made in one pass`);
});

test('pictures of unlike sizes that become alike are one tensor', async () => {
  const images = (): PixelImage[] => [...pictures(1, 30, 20), ...pictures(1, 9, 31), ...pictures(1, 16, 16)];
  const config = { size: { width: 16, height: 16 }, do_normalize: false };
  const [wanted, found, tookSteps] = await made('ViTImageProcessor', config, images);
  assertSame(found, wanted);
  assert.equal(tookSteps, 0);
});

test('what is unusual takes the steps of the library', async () => {
  const images = (): PixelImage[] => pictures(2, 20, 10);
  // The library gives such a picture three colours.
  const grey = (): PixelImage[] => [0, 1].map(() => new Image(new Uint8ClampedArray(200).fill(7), 20, 10, 1));
  const config = { size: { width: 8, height: 8 }, do_normalize: false };
  for (const [more, given] of [
    [{ do_crop_margin: true }, images],
    [{ do_thumbnail: true, do_resize: false }, images],
    [{}, grey],
    [{ do_pad: true, pad_size: { width: 4, height: 12 } }, images],
  ] as const) {
    const [wanted, found, tookSteps] = await made('ViTImageProcessor', { ...config, ...more }, given);
    assertSame(found, wanted);
    assert.equal(tookSteps, 2, JSON.stringify(more));
  }
});

test('a picture that got its size ahead gets it once, and one whose processor does more gets it from the processor', async () => {
  const config = { size: { width: 16, height: 8 }, do_normalize: false };
  for (const [more, ahead] of [
    [{}, 3],
    [{ do_center_crop: true, crop_size: 4 }, 3],
    [{ do_crop_margin: true }, 0],
    [{ do_resize: false }, 0],
  ] as const) {
    const processor = processorOf('ViTImageProcessor', { ...config, ...more });
    sizings = 0;
    const images = await sizedAhead(processor, pictures(3, 20, 10));
    assert.equal(sizings, ahead, JSON.stringify(more));
    if (ahead === 0) continue;
    await processor(images);
    assert.equal(sizings, ahead, JSON.stringify(more));
  }
});

test('the middle of a picture is what the library cuts out', async () => {
  const own = library.RawImage.prototype as PixelImage;
  for (const [width, height] of [
    [20, 11],
    [7, 7],
    [8, 3],
    [1, 1],
    [24, 15],
  ] as const) {
    const [image] = pictures(1, 20, 11) as [PixelImage];
    const [found, wanted] = [await image.center_crop(width, height), await own.center_crop.call(image, width, height)];
    assert.deepEqual([found.width, found.height, found.channels], [width, height, 3]);
    assert.deepEqual([...(found.data as Uint8ClampedArray)], [...(wanted.data as Uint8ClampedArray)]);
  }
});

test('memory serves one batch at a time, and the next one when it is given back', () => {
  giveNumbers(new Float32Array(40_000));
  const [first, second] = [takeNumbers(30_000), takeNumbers(30_000)];
  assert.equal(first.length, 30_000);
  assert.notEqual(first.buffer, second.buffer);
  giveNumbers(first);
  giveNumbers(takeNumbers(10));
  assert.equal(takeNumbers(40_000).buffer, first.buffer);
});
