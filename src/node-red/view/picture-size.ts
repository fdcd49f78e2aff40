/** Tells a picture file by its first bytes, and reads its size, without decoding it. */

export interface PictureHead {
  readonly type: 'image/jpeg' | 'image/png' | 'image/webp' | 'image/gif';
  /** As a person sees the picture: turned as its EXIF data say. */
  readonly width: number;
  readonly height: number;
}

type ImageSize = Pick<PictureHead, 'width' | 'height'>;

/** The tag of the orientation in EXIF data, and the first of its values that swaps width and height. */
const ORIENTATION = 0x0112;
const FIRST_TURNED = 5;

/** Returns null for anything but a JPEG, PNG, WebP or GIF file, and for a file that is cut off in its head. */
export function pictureHead(bytes: Uint8Array): PictureHead | null {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const found = headOf(file);
    return found && found.width > 0 && found.height > 0 ? found : null;
  } catch {
    // A read beyond the end.
    return null;
  }
}

function headOf(file: Buffer): PictureHead | null {
  const name = file.toString('latin1', 0, 12);
  if (name.startsWith('\xff\xd8\xff')) return { type: 'image/jpeg', ...sizeOfJpeg(file) };
  if (name.startsWith('\x89PNG\r\n\x1a\n'))
    return { type: 'image/png', width: file.readUInt32BE(16), height: file.readUInt32BE(20) };
  if (name.startsWith('GIF8')) return { type: 'image/gif', width: file.readUInt16LE(6), height: file.readUInt16LE(8) };
  if (name.startsWith('RIFF') && name.endsWith('WEBP')) return { type: 'image/webp', ...sizeOfWebp(file) };
  return null;
}

function sizeOfWebp(file: Buffer): ImageSize {
  const kind = file.toString('latin1', 12, 16);
  if (kind === 'VP8X') return { width: 1 + file.readUIntLE(24, 3), height: 1 + file.readUIntLE(27, 3) };
  if (kind === 'VP8 ') return { width: file.readUInt16LE(26) & 0x3fff, height: file.readUInt16LE(28) & 0x3fff };
  const bits = file.readUInt32LE(21);
  return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
}

/** Goes from segment to segment up to the frame, which has the size. */
function sizeOfJpeg(file: Buffer): ImageSize {
  let at = 2;
  let isTurned = false;
  for (;;) {
    const marker = file.readUInt16BE(at);
    const length = file.readUInt16BE(at + 2);
    if (marker === 0xffe1 && file.toString('latin1', at + 4, at + 8) === 'Exif')
      isTurned = orientationIn(file.subarray(at + 10, at + 2 + length)) >= FIRST_TURNED;
    if (isFrame(marker)) {
      const [height, width] = [file.readUInt16BE(at + 5), file.readUInt16BE(at + 7)];
      return isTurned ? { width: height, height: width } : { width, height };
    }
    // Bytes of 0xff may fill the room before a marker.
    at += marker === 0xffff ? 1 : 2 + length;
  }
}

/** Whether the marker begins a frame. Three of the numbers between are tables. */
function isFrame(marker: number): boolean {
  return marker >= 0xffc0 && marker <= 0xffcf && marker !== 0xffc4 && marker !== 0xffc8 && marker !== 0xffcc;
}

/** Returns the orientation, from 1 to 8, of EXIF data, which have the form of a TIFF file; 1 if they do not tell it. */
function orientationIn(tiff: Buffer): number {
  try {
    const isLittle = tiff.toString('latin1', 0, 2) === 'II';
    const read16 = (at: number): number => (isLittle ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at));
    const first = isLittle ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4);
    const count = read16(first);
    for (let entry = first + 2; entry < first + 2 + 12 * count; entry += 12)
      if (read16(entry) === ORIENTATION) return read16(entry + 8);
  } catch {
    // Data that end too early turn nothing.
  }
  return 1;
}
