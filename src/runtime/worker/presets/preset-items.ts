/** Reads the items of an ONNX stage: tensors or pictures, with the options of their requests if its results have some. */
import type { OnnxOptions } from '../../../config/stage-source.ts';
import { GIVES } from '../../../config/tasks/presets.ts';
import type { ModeletContext } from '../modelet/modelet.ts';
import type { Ports, Stacking } from '../onnx/ports.ts';
import { type ItemParts, readExamples, readItem } from '../onnx/read-item.ts';
import { madePictures } from '../tasks/examples.ts';
import { unwrapped } from '../tasks/inputs.ts';
import { loadSharp } from '../tasks/library.ts';
import type { ModelFile } from './model-file.ts';
import { findPictureInput } from './picture-input.ts';
import { PictureReader } from './picture-reader.ts';

/** An item with the options of its request. */
export interface PresetItem {
  readonly item: ItemParts;
  readonly own: unknown;
}

export interface ItemReader {
  /** Inputs for the warm-up. */
  readonly examples: readonly unknown[];
  read(given: unknown, stacking: Stacking): PresetItem | Promise<PresetItem>;
  /** Reads the examples that can be read. */
  readonly readExamples: (stacking: Stacking) => readonly ItemParts[];
}

/** @throws Error for users if the model does not take what the stage says, or the decoder of pictures is missing */
export async function itemReader(
  { presets: { takes, gives, values }, examples }: OnnxOptions,
  ports: Ports,
  file: ModelFile,
  requireFrom: string,
  log: ModeletContext['log'],
): Promise<ItemReader> {
  const hasOptions = Object.keys(GIVES[gives].ofRequest).length > 0;
  const split = (given: unknown): { readonly input: unknown; readonly own: unknown } =>
    hasOptions ? unwrapped(given) : { input: given, own: undefined };
  if (takes === 'tensors') {
    return {
      examples,
      read: (given, stacking) => {
        const { input, own } = split(given);
        return { item: readItem(input, ports.inputs, stacking), own };
      },
      readExamples: (stacking) =>
        readExamples(
          examples.map((example) => split(example).input),
          ports.inputs,
          stacking,
        ),
    };
  }
  const input = findPictureInput(ports, values, file);
  const pictures = new PictureReader(loadSharp(requireFrom), ports, input, values);
  const { width, height, colours, isPlanar } = input;
  log.info(
    `pictures of ${width} x ${height}, ${colours === 1 ? 'grey' : values['colours']}, ${isPlanar ? 'planes' : 'pixels'}`,
  );
  const given = examples.length > 0 ? examples : await madePictures();
  const read = async (one: unknown): Promise<PresetItem> => {
    const { input: picture, own } = split(one);
    return { item: await pictures.read(picture), own };
  };
  const tried = await Promise.allSettled(given.map(read));
  const readable = tried.flatMap((one) => (one.status === 'fulfilled' ? [one.value.item] : []));
  return { examples: given, read, readExamples: () => readable };
}
