/**
 * Finds objects in several pictures by one run of the model. The library's pipeline takes one picture at a time; its parts
 * take several. Pictures that the processor makes unlike sizes of run apart, because to fill them up would change answers.
 */
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
  const groups = new Map<string, SameSize>();
  for (const [at, image] of images.entries()) {
    const prepared = await processor([image]);
    const size = String(prepared.pixel_values.dims);
    const group = groups.get(size) ?? { at: [], prepared: [] };
    groups.set(size, group);
    group.at.push(at);
    group.prepared.push(prepared);
  }
  const results: (readonly Detected[])[] = new Array(images.length);
  for (const { at, prepared } of groups.values()) {
    const masks = prepared.flatMap(({ pixel_mask: mask }) => mask ?? []);
    const output = await model({
      pixel_values: joined(
        cat,
        prepared.map(({ pixel_values: values }) => values),
      ),
      ...(masks.length > 0 ? { pixel_mask: joined(cat, masks) } : {}),
    });
    const sizes = at.map((index) => images[index] as RawImage).map(({ width, height }) => [height, width] as const);
    const found = processor.image_processor.post_process_object_detection(output, threshold, sizes);
    const names = model.config['id2label'] as Readonly<Record<number, string>> | undefined;
    for (const [position, { boxes, classes, scores }] of found.entries()) {
      const objects = boxes.map((box, of): Detected => {
        const [xmin = 0, ymin = 0, xmax = 0, ymax = 0] = Array.from(box, Math.trunc);
        return { label: names?.[classes[of] as number], score: scores[of] as number, box: { xmin, ymin, xmax, ymax } };
      });
      results[at[position] as number] = objects.sort((one, other) => other.score - one.score);
    }
  }
  return results;
}

function joined(cat: Library['cat'], tensors: readonly LibraryTensor[]): LibraryTensor {
  const [first] = tensors;
  return first && tensors.length === 1 ? first : cat(tensors, 0);
}
