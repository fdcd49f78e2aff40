/**
 * Draws results over a picture, as SVG: boxes with their labels and scores, masks, labels with bars, depth. The results come from
 * models and messages, so that a label may hold anything: it becomes text, never markup.
 */
import { isObject } from '../objects.ts';
import { hashOf } from '../text.ts';
import { encodePng, isSize, shrink } from './png.ts';

export interface DrawnOn {
  readonly width: number;
  readonly height: number;
  /** Height of the letters, in pixels of the picture. */
  readonly letters: number;
}

interface LabelScore {
  readonly label: string;
  readonly score: number | null;
}

interface LabelBox extends LabelScore {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

interface LabelMask extends LabelScore {
  /** Data URL of a PNG file: white where the thing is. */
  readonly href: string;
}

/** Colours that people with a colour vision deficiency can tell apart, each readable below white letters. */
const COLOURS = ['#0072b2', '#b34a00', '#007a5a', '#a8327d', '#6a4fb3', '#8a6d00', '#c0392b', '#3d5a6c'];
const MOST_BOXES = 200;
const MOST_MASKS = 50;
const MOST_BARS = 5;
const LONGEST_LABEL = 40;
/** Pixels on the longer side of a drawn depth. */
const DEPTH_SIDE = 320;
const MASK = /^data:image\/png;base64,([A-Za-z0-9+/]{32})[A-Za-z0-9+/]*={0,2}$/;

/** Returns the elements of the drawing; '' if the results have no form that can be drawn. */
export async function drawResults(results: unknown, on: DrawnOn): Promise<string> {
  if (Array.isArray(results)) {
    const boxes = results.slice(0, MOST_BOXES).flatMap((one) => boxOf(one) ?? []);
    if (boxes.length > 0) return boxes.map((box) => drawBox(box, on)).join('');
    const masks = results.slice(0, MOST_MASKS).flatMap((one) => maskOf(one, on) ?? []);
    if (masks.length > 0) return drawMasks(masks, on);
    const labels = results.slice(0, MOST_BARS).flatMap((one) => labelOf(one) ?? []);
    return labels.map((one, at) => drawBar(one, at, on)).join('');
  }
  return drawDepth(results, on);
}

/** Returns an SVG document: a picture, given by its address, with a drawing over it. */
export function svgDocument(width: number, height: number, href: string, drawing: string): string {
  const size = `width="${width}" height="${height}"`;
  const picture = `<image ${size} preserveAspectRatio="none" href="${href}"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${width} ${height}">${picture}${drawing}</svg>`;
}

/** Returns the drawing alone, as an SVG document that is transparent where nothing is drawn. */
export function svgOverlay({ width, height }: DrawnOn, drawing: string): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${drawing}</svg>`;
}

function labelOf(value: unknown): LabelScore | null {
  if (!isObject(value)) return null;
  const { label, score } = value;
  if (typeof label !== 'string' && typeof label !== 'number') return null;
  return { label: String(label), score: typeof score === 'number' && Number.isFinite(score) ? score : null };
}

function boxOf(value: unknown): LabelBox | null {
  const box = isObject(value) ? value['box'] : null;
  if (!isObject(box)) return null;
  const sides = ['xmin', 'ymin', 'xmax', 'ymax'].map((name) => box[name]);
  if (!sides.every((side): side is number => typeof side === 'number' && Number.isFinite(side))) return null;
  const [left, top, right, bottom] = sides as [number, number, number, number];
  return { ...(labelOf(value) ?? { label: '', score: null }), left, top, right, bottom };
}

function drawBox(box: LabelBox, { width, height, letters }: DrawnOn): string {
  const [left, right] = [clamp(box.left, width), clamp(box.right, width)];
  const [top, bottom] = [clamp(box.top, height), clamp(box.bottom, height)];
  const colour = colourOf(box.label);
  const size = `width="${round(Math.max(0, right - left))}" height="${round(Math.max(0, bottom - top))}"`;
  const frame = `<rect x="${round(left)}" y="${round(top)}" ${size} fill="none" stroke="${colour}" stroke-width="${round(letters / 6)}"/>`;
  const said = wordsOf(box);
  if (said === '') return frame;
  const plate = { wide: widthOf(said) * letters + letters * 0.6, high: letters * 1.3 };
  // Above the box if the picture has room there, else inside; and inside the picture to the right.
  const y = top >= plate.high ? top - plate.high : top;
  const x = Math.max(0, Math.min(left, width - plate.wide));
  return frame + drawWords(said, { x, y, ...plate }, colour, letters);
}

/** A mask may be smaller than the picture, but not larger: what shows the drawing decodes it. */
function maskOf(value: unknown, { width, height }: DrawnOn): LabelMask | null {
  const href = isObject(value) ? value['mask'] : null;
  const [, head] = (typeof href === 'string' && MASK.exec(href)) || [];
  if (head === undefined) return null;
  const bytes = Buffer.from(head, 'base64');
  const pixels = bytes.readUInt32BE(16) * bytes.readUInt32BE(20);
  return pixels > width * height ? null : { ...(labelOf(value) ?? { label: '', score: null }), href: href as string };
}

/** Draws each mask in the colour of its label, half transparent, and over all of them their labels. */
function drawMasks(masks: readonly LabelMask[], on: DrawnOn): string {
  const size = `width="${on.width}" height="${on.height}"`;
  const things = masks.map(({ href, label }, at) => {
    const mask = `<mask id="mask${at}"><image ${size} preserveAspectRatio="none" href="${href}"/></mask>`;
    return `${mask}<rect ${size} fill="${colourOf(label)}" opacity="0.5" mask="url(#mask${at})"/>`;
  });
  const said = masks.filter((one) => wordsOf(one) !== '').slice(0, MOST_BARS);
  return things.join('') + said.map((one, at) => drawName(one, at, on)).join('');
}

function drawName(one: LabelScore, at: number, on: DrawnOn): string {
  return drawWords(wordsOf(one), lineOf(one, at, on), colourOf(one.label), on.letters);
}

function lineOf(one: LabelScore, at: number, { width, letters }: DrawnOn): Place {
  const high = letters * 1.5;
  return { x: 0, y: at * high, wide: Math.min(width, widthOf(wordsOf(one)) * letters + letters * 0.6), high };
}

function drawBar(one: LabelScore, at: number, on: DrawnOn): string {
  const { width, letters } = on;
  const place = lineOf(one, at, on);
  const share = round(width * Math.max(0, Math.min(1, one.score ?? 0)));
  const bar = `<rect x="0" y="${round(place.y)}" width="${share}" height="${round(place.high)}" fill="${colourOf(one.label)}" opacity="0.6"/>`;
  return bar + drawWords(wordsOf(one), place, '#000000', letters, 0.45);
}

interface Place {
  readonly x: number;
  readonly y: number;
  readonly wide: number;
  readonly high: number;
}

function drawWords(said: string, { x, y, wide, high }: Place, colour: string, letters: number, opacity = 0.9): string {
  const plate = `<rect x="${round(x)}" y="${round(y)}" width="${round(wide)}" height="${round(high)}" fill="${colour}" opacity="${opacity}"/>`;
  const font = `font-family="sans-serif" font-size="${round(letters)}"`;
  const base = y + high / 2 + letters * 0.35;
  return `${plate}<text x="${round(x + letters * 0.3)}" y="${round(base)}" ${font} fill="#ffffff">${escaped(said)}</text>`;
}

/** Draws near things light and others dark, half transparent. Depth itself has no unit that all models share. */
async function drawDepth(results: unknown, { width, height }: DrawnOn): Promise<string> {
  if (!isObject(results)) return '';
  const { depth, width: w, height: h } = results;
  if (!isSize(w, h) || !(Array.isArray(depth) || ArrayBuffer.isView(depth))) return '';
  const values = depth as ArrayLike<number>;
  if (values.length === 0 || values.length !== Number(w) * Number(h)) return '';
  const small = shrinkNumbers(values, Number(w), Number(h));
  const png = await encodePng(small);
  return `<image width="${width}" height="${height}" preserveAspectRatio="none" opacity="0.8" href="data:image/png;base64,${png.toString('base64')}"/>`;
}

function shrinkNumbers(values: ArrayLike<number>, width: number, height: number): Parameters<typeof encodePng>[0] {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] as number;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const range = most - least || 1;
  const grey = new Uint8ClampedArray(values.length);
  for (let at = 0; at < values.length; at += 1) grey[at] = (255 * ((values[at] as number) - least)) / range;
  return shrink({ data: grey, width, height, channels: 1 }, DEPTH_SIDE);
}

function wordsOf({ label, score }: LabelScore): string {
  const short = label.length > LONGEST_LABEL ? `${label.slice(0, LONGEST_LABEL)}…` : label;
  return score === null ? short : `${short} ${Math.round(100 * score)} %`.trim();
}

/** Estimates the width of a text, in heights of its letters: what draws it may have any font. */
function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += (character.codePointAt(0) as number) >= 0x2e80 ? 1 : 0.56;
  return width;
}

function colourOf(label: string): string {
  return COLOURS[hashOf(label) % COLOURS.length] as string;
}

/** Returns the text as XML holds it: a space replaces each character that XML cannot have. */
function escaped(text: string): string {
  return Array.from(text, (character) => {
    const code = character.codePointAt(0) as number;
    const isHalf = code >= 0xd800 && code <= 0xdfff;
    const isAllowed = code >= 0x20 && !isHalf && code !== 0xfffe && code !== 0xffff;
    if (!isAllowed) return ' ';
    return '<>&"\''.includes(character) ? `&#${code};` : character;
  }).join('');
}

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(most, value));
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
