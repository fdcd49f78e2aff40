/**
 * The size that a picture gets for a detector, as in Python. Where a processor limits both edges, the library enlarges every
 * picture to the longest that is allowed.
 */
import type { Size } from '../presets/placement.ts';
import type { TaskPipeline } from '../tasks/library.ts';

interface Edges {
  /** Of the shorter edge, if the longer one has room then. */
  readonly shortest_edge: number;
  /** Most of the longer edge. */
  readonly longest_edge: number;
}

/** The sides of a picture for YOLOS are multiples of this. */
const PATCH = 16;

/** @param multiple of the sides, which are cut to it; 1: none */
export function sizeWithin({ width, height }: Size, { shortest_edge, longest_edge }: Edges, multiple: number): Size {
  const [shorter, longer] = [Math.min(width, height), Math.max(width, height)];
  const isLong = (longer / shorter) * shortest_edge > longest_edge;
  const exact = isLong ? (longest_edge * shorter) / longer : shortest_edge;
  const [less, more] = [isLong ? roundEven(exact) : exact, Math.trunc((exact * longer) / shorter)];
  const cut = (side: number): number => side - (side % multiple);
  if (shorter === less && (multiple === 1 || width >= height)) return { width: cut(width), height: cut(height) };
  return width < height ? { width: cut(less), height: cut(more) } : { width: cut(more), height: cut(less) };
}

/** As Python rounds: halves to the even number. */
function roundEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 === 1 ? rounded - 1 : rounded;
}

/** Lets the processor of a pipeline choose sizes as in Python. */
export function sizeAsInPython({ processor }: TaskPipeline): void {
  const own = processor?.image_processor;
  if (!own) return;
  const usual = own.get_resize_output_image_size.bind(own);
  const { image_processor_type, feature_extractor_type, max_size } = own.config;
  const multiple = String(image_processor_type ?? feature_extractor_type).startsWith('Yolos') ? PATCH : 1;
  own.get_resize_output_image_size = (image, given) => {
    const size = typeof given === 'number' ? { shortest_edge: given, longest_edge: max_size } : given;
    const { shortest_edge, longest_edge } = (size ?? {}) as Partial<Edges>;
    if (shortest_edge === undefined || longest_edge === undefined) return usual(image, given);
    const { width, height } = sizeWithin(image, { shortest_edge, longest_edge }, multiple);
    return [width, height];
  };
}
