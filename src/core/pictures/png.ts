/** Writes pixels as a PNG file, and makes large pictures smaller. Needs no library, so that it also works in Node-RED. */
import { promisify } from 'node:util';
import { crc32, deflate } from 'node:zlib';

export interface PixelPicture {
  readonly data: ArrayLike<number>;
  readonly width: number;
  readonly height: number;
  /** 1: grey. 2: grey and alpha. 3: red, green and blue. 4: these and alpha. */
  readonly channels: number;
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** The kind of colour in a PNG file, by the number of channels. */
const COLOUR_TYPES: Readonly<Record<number, number>> = { 1: 0, 2: 4, 3: 2, 4: 6 };
/** The fastest compression: a preview is sent once. */
const LEVEL = 1;
/** The compression runs in a thread of Node.js, so the event loop stays free. */
const compress = promisify<Uint8Array, object, Buffer>(deflate);

/** Whether these are the sides of a picture. */
export function isSize(...sides: readonly unknown[]): boolean {
  return sides.every((side) => Number.isSafeInteger(side) && Number(side) > 0);
}

/** Returns the picture with at most `longest` pixels on its longer side: every n-th pixel of it, in place of an average. */
export function shrink(picture: PixelPicture, longest: number): PixelPicture {
  const { data, width, height, channels } = picture;
  const factor = longest / Math.max(width, height);
  if (factor >= 1) return picture;
  const [w, h] = [width, height].map((side) => Math.max(1, Math.round(side * factor))) as [number, number];
  const small = new Uint8Array(w * h * channels);
  let to = 0;
  for (let y = 0; y < h; y += 1) {
    const row = Math.floor((y * height) / h) * width;
    for (let x = 0; x < w; x += 1) {
      const from = (row + Math.floor((x * width) / w)) * channels;
      for (let channel = 0; channel < channels; channel += 1) small[to++] = data[from + channel] as number;
    }
  }
  return { data: small, width: w, height: h, channels };
}

export async function encodePng({ data, width, height, channels }: PixelPicture): Promise<Buffer> {
  const stride = width * channels;
  // Each line begins with the number of its filter. 0: the pixels stand as they are.
  const lines = new Uint8Array((stride + 1) * height);
  for (let y = 0, at = 1; y < height; y += 1, at += stride + 1)
    for (let x = 0; x < stride; x += 1) lines[at + x] = data[y * stride + x] as number;
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = 8;
  head[9] = COLOUR_TYPES[channels] as number;
  const content = await compress(lines, { level: LEVEL });
  return Buffer.concat([SIGNATURE, chunk('IHDR', head), chunk('IDAT', content), chunk('IEND', Buffer.alloc(0))]);
}

function chunk(type: string, content: Buffer): Buffer {
  const checked = Buffer.concat([Buffer.from(type, 'latin1'), content]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  sum.writeUInt32BE(crc32(checked));
  return Buffer.concat([length, checked, sum]);
}
