/** Places a picture in the input of a model: gives it that size, and moves boxes back. */

/** The size in pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Placement {
  /** The size of the picture. */
  readonly of: Size;
  /** The size that it gets, and its corner in the input: negative where it is cut. */
  readonly resized: Size;
  readonly left: number;
  readonly top: number;
  /** From pixels of the picture to those of the input. */
  readonly scaleX: number;
  readonly scaleY: number;
}

export interface Box {
  readonly xmin: number;
  readonly ymin: number;
  readonly xmax: number;
  readonly ymax: number;
}

const atLeastOne = (pixels: number): number => Math.max(1, pixels);

/** @param share how much of the shorter side the middle has, for `crop` */
export function place(of: Size, input: Size, resize: unknown, share: number): Placement {
  const ratios = [input.width / of.width, input.height / of.height] as const;
  if (resize === 'letterbox') {
    const scale = Math.min(...ratios);
    const width = atLeastOne(Math.round(of.width * scale));
    const height = atLeastOne(Math.round(of.height * scale));
    // If the number of pixels is odd, the larger half is behind the picture.
    const [left, top] = [input.width - width, input.height - height].map((bars) => Math.round(bars / 2 - 0.1)) as [
      number,
      number,
    ];
    return { of, resized: { width, height }, left, top, scaleX: scale, scaleY: scale };
  }
  if (resize === 'crop') {
    // The side that decides is rounded, the other one is cut off, as torchvision does.
    const isByWidth = ratios[0] >= ratios[1];
    const decides = Math.round((isByWidth ? input.width : input.height) / share);
    const scale = decides / (isByWidth ? of.width : of.height);
    const other = (length: number, least: number): number => Math.max(Math.floor(length * scale + 1e-6), least);
    const width = isByWidth ? decides : other(of.width, input.width);
    const height = isByWidth ? other(of.height, input.height) : decides;
    const [left, top] = [-halfToEven(width - input.width), -halfToEven(height - input.height)];
    return { of, resized: { width, height }, left, top, scaleX: width / of.width, scaleY: height / of.height };
  }
  return { of, resized: input, left: 0, top: 0, scaleX: ratios[0], scaleY: ratios[1] };
}

function halfToEven(length: number): number {
  const half = Math.floor(length / 2);
  return length % 2 === 1 && half % 2 === 1 ? half + 1 : half;
}

/** The placement of an input that is no picture: its boxes stay as they are. */
export function asItIs(of: Size): Placement {
  return { of, resized: of, left: 0, top: 0, scaleX: 1, scaleY: 1 };
}

/** Returns the box in whole pixels of the picture, without what lies outside. */
export function toPicture({ xmin, ymin, xmax, ymax }: Box, { of, left, top, scaleX, scaleY }: Placement): Box {
  const within = (place: number, length: number): number => Math.round(Math.min(Math.max(place, 0), length));
  return {
    xmin: within((xmin - left) / scaleX, of.width),
    ymin: within((ymin - top) / scaleY, of.height),
    xmax: within((xmax - left) / scaleX, of.width),
    ymax: within((ymax - top) / scaleY, of.height),
  };
}
