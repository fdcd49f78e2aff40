// Draws the pictures of the example "Images by ONNX": handwritten digits of the test images, large and in colour, like
// camera images. The output is identical each time, byte for byte.
//   node scripts/draw-images.mjs
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { encode } from 'jpeg-js';
import { root } from './runtimes.mjs';

export const IMAGES = join(root, 'assets', 'images');

const [WIDTH, HEIGHT] = [160, 120];
const QUALITY = 70;
const GRID = 8;
const INK_MAX = 16;
const NOISE = 10;

/** Colours of paper and ink as red, green and blue. Includes light ink on dark paper. */
const COLOURS = [
  { paper: [242, 236, 220], ink: [28, 44, 110] },
  { paper: [214, 230, 214], ink: [120, 24, 30] },
  { paper: [36, 60, 48], ink: [236, 238, 226] },
  { paper: [250, 214, 150], ink: [44, 40, 36] },
  { paper: [24, 34, 80], ink: [255, 216, 96] },
];

/** Returns `[{name, file}]`: one picture per digit, from a test image that stays legible when enlarged and blurred. */
export function drawImages() {
  const { images } = JSON.parse(readFileSync(join(root, 'assets', 'data', 'digits-test.json'), 'utf8'));
  return Array.from({ length: 10 }, (_, digit) => {
    const { image } = images.filter(({ label }) => label === digit)[3];
    const colours = COLOURS[digit % COLOURS.length];
    const picture = draw(image, colours, randomNumbers(digit + 1));
    return { name: `digit-${digit}.jpg`, file: encode(picture, QUALITY).data };
  });
}

/** Draws one picture. The digit fills the square in the middle; the light comes from one side. */
function draw(image, { paper, ink }, random) {
  const data = Buffer.alloc(WIDTH * HEIGHT * 4, 255);
  const left = (WIDTH - HEIGHT) / 2;
  for (let y = 0; y < HEIGHT; y += 1) {
    for (let x = 0; x < WIDTH; x += 1) {
      const strength = inkAt(image, ((x - left) * GRID) / HEIGHT, (y * GRID) / HEIGHT) / INK_MAX;
      const light = 0.94 + (0.06 * x) / WIDTH;
      const grain = (random() - 0.5) * NOISE;
      for (let channel = 0; channel < 3; channel += 1) {
        const colour = paper[channel] + (ink[channel] - paper[channel]) * strength;
        data[(y * WIDTH + x) * 4 + channel] = Math.max(0, Math.min(255, Math.round(colour * light + grain)));
      }
    }
  }
  return { width: WIDTH, height: HEIGHT, data };
}

/** Returns the ink at a point: interpolated linearly between cell centres, and 0 outside the image. */
function inkAt(image, x, y) {
  const [column, row] = [Math.floor(x - 0.5), Math.floor(y - 0.5)];
  const [right, down] = [x - 0.5 - column, y - 0.5 - row];
  const cell = (c, r) => (c >= 0 && c < GRID && r >= 0 && r < GRID ? image[r * GRID + c] : 0);
  const above = cell(column, row) * (1 - right) + cell(column + 1, row) * right;
  const below = cell(column, row + 1) * (1 - right) + cell(column + 1, row + 1) * right;
  return above * (1 - down) + below * down;
}

/** Returns a generator of pseudorandom numbers from 0 to 1, the same for the same seed (mulberry32). */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  mkdirSync(IMAGES, { recursive: true });
  for (const { name, file } of drawImages()) writeFileSync(join(IMAGES, name), file);
}
