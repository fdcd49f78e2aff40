/** Pictures of another size have the bytes that Pillow gives them: of each filter, along the lines first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type FilterName, resizeAsPillow, sizedImages } from '../../src/runtime/worker/media/resize.ts';
import type { RawImageClass } from '../../src/runtime/worker/tasks/library.ts';

const FROM = { width: 5, height: 4 };
const PIXELS = Uint8ClampedArray.from({ length: 60 }, (_, at) => (at * 53) % 256);

/** As `resize((WIDTH, 4), FILTER).resize((WIDTH, HEIGHT), FILTER)` answers for 2 x 3 and for 6 x 2 pixels. */
const PILLOW: Readonly<Record<FilterName, readonly (readonly number[])[]>> = {
  box: [
    [74, 127, 94, 173, 98, 151, 115, 125, 135, 150, 139, 64, 155, 122, 175, 126, 51, 104],
    [
      14, 67, 120, 173, 226, 23, 76, 129, 182, 76, 129, 182, 235, 32, 85, 138, 191, 116, 68, 121, 174, 227, 24, 77, 130,
      183, 236, 130, 183, 236, 33, 86, 139, 192, 117, 42,
    ],
  ],
  bilinear: [
    [97, 139, 87, 159, 107, 125, 124, 119, 120, 139, 134, 100, 151, 99, 152, 119, 103, 132],
    [
      19, 72, 125, 138, 164, 52, 121, 159, 121, 132, 94, 147, 189, 77, 94, 143, 196, 103, 62, 115, 168, 181, 69, 95,
      164, 126, 164, 99, 137, 190, 94, 92, 109, 186, 129, 36,
    ],
  ],
  hamming: [
    [92, 143, 74, 164, 95, 133, 128, 119, 111, 140, 131, 95, 163, 94, 147, 115, 91, 131],
    [
      15, 68, 121, 162, 206, 31, 107, 157, 133, 124, 100, 153, 220, 45, 88, 139, 192, 112, 66, 119, 172, 213, 38, 82,
      158, 134, 184, 101, 151, 204, 52, 87, 130, 190, 120, 40,
    ],
  ],
  bicubic: [
    [89, 140, 83, 165, 107, 130, 120, 116, 125, 142, 141, 95, 151, 99, 160, 118, 102, 134],
    [
      13, 64, 126, 146, 181, 36, 114, 174, 123, 129, 79, 156, 208, 65, 85, 137, 209, 109, 59, 121, 175, 195, 50, 85,
      179, 129, 172, 84, 150, 212, 77, 86, 106, 194, 127, 26,
    ],
  ],
  lanczos: [
    [88, 140, 81, 172, 109, 129, 118, 112, 129, 145, 146, 92, 148, 98, 164, 118, 101, 135],
    [
      10, 60, 128, 146, 177, 31, 114, 194, 122, 124, 57, 164, 213, 71, 77, 133, 219, 111, 57, 125, 179, 192, 45, 82,
      199, 131, 170, 65, 158, 233, 81, 81, 94, 198, 129, 19,
    ],
  ],
};

for (const [filter, [small, wide]] of Object.entries(PILLOW))
  test(`pixels by the filter ${filter} are those of Pillow`, () => {
    const resized = (width: number, height: number): number[] => [
      ...resizeAsPillow(PIXELS, FROM, { width, height }, filter as FilterName),
    ];
    assert.deepEqual(resized(2, 3), small);
    assert.deepEqual(resized(6, 2), wide);
    assert.deepEqual(resized(5, 4), [...PIXELS]);
  });

/** The picture with its columns as lines. */
function turned(data: Uint8ClampedArray, width: number): Uint8ClampedArray {
  const height = data.length / 3 / width;
  return Uint8ClampedArray.from(data, (_, at) => {
    const [pixel, colour] = [Math.floor(at / 3), at % 3];
    return data[((pixel % height) * width + Math.floor(pixel / height)) * 3 + colour] as number;
  });
}

test('each line is resized as if it were alone, and each column as a line', () => {
  const side = fc.integer({ min: 1, max: 90 });
  const filters = fc.constantFrom(...(Object.keys(PILLOW) as FilterName[]));
  fc.assert(
    fc.property(side, side, side, filters, fc.integer(), (width, height, to, filter, seed) => {
      const data = Uint8ClampedArray.from({ length: width * height * 3 }, (_, at) => Math.abs(at * 7919 + seed) % 256);
      const line = { width, height: 1 };
      const alone = Array.from({ length: height }, (_, at) => {
        const own = data.slice(at * width * 3, (at + 1) * width * 3);
        return [...resizeAsPillow(own, line, { width: to, height: 1 }, filter)];
      }).flat();
      const wide = resizeAsPillow(data, { width, height }, { width: to, height }, filter);
      assert.deepEqual([...wide], alone);
      const columns = resizeAsPillow(
        turned(data, width),
        { width: height, height: width },
        { width: height, height: to },
        filter,
      );
      assert.deepEqual([...turned(columns, height)], [...wide]);
    }),
    { numRuns: 100 },
  );
});

test('a narrow picture that would become too large, or lose a side, is refused, whatever the filter', async () => {
  class Base {
    declare readonly data: Uint8ClampedArray;
    declare readonly width: number;
    declare readonly height: number;
    declare readonly channels: number;
    constructor(data: Uint8ClampedArray, width: number, height: number, channels: number) {
      Object.assign(this, { data, width, height, channels });
    }
    async resize(): Promise<never> {
      throw new Error('the limit comes first');
    }
  }
  const SizedImage = sizedImages(Base as unknown as RawImageClass, 1);
  const narrow = new SizedImage(new Uint8ClampedArray(20_000 * 3), 20_000, 1, 3);
  for (const resample of ['bilinear', 0]) {
    await assert.rejects(narrow.resize(224 * 20_000, 224, { resample }), {
      code: 'payload_too_large',
      message: /it would have 4480000 x 224 pixels/,
    });
    await assert.rejects(narrow.resize(1333, 0, { resample }), {
      code: 'invalid_input',
      message: /it would have 1333 x 0 pixels$/,
    });
  }
  const { width, height } = await narrow.resize(1000, 1000);
  assert.deepEqual([width, height], [1000, 1000]);
});
