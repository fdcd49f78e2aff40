/**
 * Finds objects in several pictures by one run of the model. The library's pipeline takes one picture at a time; its parts
 * take several. Pictures that the processor makes unlike sizes of run apart, because to fill them up would change answers.
 */
import { giveNumbers } from '../media/planes.ts';
import type { Detector, Library, LibraryTensor, RawImage } from './library.ts';

/** An object that the model found. */
interface Detected {
  readonly label: string | undefined;
  readonly score: number;
  readonly box: { readonly xmin: number; readonly ymin: number; readonly xmax: number; readonly ymax: number };
}

type Prepared = Awaited<ReturnType<Detector['processor']>>;

/** Pictures that run together, by their places among all. */
interface SameSize {
  readonly at: number[];
  readonly prepared: Prepared[];
}

/**
 * Returns the objects in each picture, the highest score first, boxes in its pixels.
 * @param threshold least score
 */
export async function detect(
  { cat }: Library,
  { model, processor }: Detector,
  images: readonly RawImage[],
  threshold: number,
): Promise<(readonly Detected[])[]> {
  // By the size that they have: the processor makes pictures of one size alike, all at once.
  const given = new Map<string, number[]>();
  for (const [at, { width, height }] of images.entries()) {
    const size = `${width} ${height}`;
    const places = given.get(size) ?? [];
    given.set(size, places);
    places.push(at);
  }
  const groups = new Map<string, SameSize>();
  for (const places of given.values()) {
    const prepared = await processor(places.map((at) => images[at] as RawImage));
    const size = String(prepared.pixel_values.dims.slice(1));
    const group = groups.get(size) ?? { at: [], prepared: [] };
    groups.set(size, group);
    group.at.push(...places);
    group.prepared.push(prepared);
  }
  const results: (readonly Detected[])[] = new Array(images.length);
  for (const { at, prepared } of groups.values()) {
    const masks = prepared.flatMap(({ pixel_mask: mask }) => mask ?? []);
    const pixels = joined(
      cat,
      prepared.map(({ pixel_values: values }) => values),
    );
    const output = await model({
      pixel_values: pixels,
      ...(masks.length > 0 ? { pixel_mask: joined(cat, masks) } : {}),
    });
    const sizes = at.map((index) => images[index] as RawImage).map(({ width, height }) => [height, width] as const);
    const found = processor.image_processor.post_process_object_detection(asRows(output), threshold, sizes);
    const names = model.config['id2label'] as Readonly<Record<number, string>> | undefined;
    for (const [position, { boxes, classes, scores }] of found.entries()) {
      const objects = boxes.map((box, of): Detected => {
        const [xmin = 0, ymin = 0, xmax = 0, ymax = 0] = Array.from(box, Math.trunc);
        return { label: names?.[classes[of] as number], score: scores[of] as number, box: { xmin, ymin, xmax, ymax } };
      });
      results[at[position] as number] = objects.sort((one, other) => other.score - one.score);
    }
    giveNumbers(pixels.data);
  }
  return results;
}

/** Gives the outputs as rows of numbers: the library would make a tensor in a proxy for each box, and another for its scores. */
function asRows(output: Readonly<Record<string, LibraryTensor>>): object {
  const { logits, pred_boxes: boxes } = output;
  const areRows = (of?: LibraryTensor): of is LibraryTensor => of?.dims.length === 3 && of.data instanceof Float32Array;
  if (!areRows(logits) || !areRows(boxes)) return output;
  return { logits: rowsOf(logits), pred_boxes: rowsOf(boxes) };
}

function rowsOf({ data, dims }: LibraryTensor): object {
  const [pictures = 0, boxes = 0, width = 0] = dims;
  const rowAt = (from: number): object => ({ data: (data as Float32Array).subarray(from, from + width) });
  const rows = Array.from({ length: pictures }, (_, picture) =>
    Array.from({ length: boxes }, (_, box) => rowAt((picture * boxes + box) * width)),
  );
  return Object.assign(rows, { dims });
}

function joined(cat: Library['cat'], tensors: readonly LibraryTensor[]): LibraryTensor {
  const [first] = tensors;
  return first && tensors.length === 1 ? first : cat(tensors, 0);
}
