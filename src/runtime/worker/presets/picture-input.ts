/** Finds the input of an ONNX model that takes pictures: its order of dimensions, colours, size, and type. */
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { describePort, type Ports, type SessionPort } from '../onnx/ports.ts';
import type { ModelFile } from './model-file.ts';
import type { Size } from './placement.ts';

export interface PictureInput extends Size {
  /** Index of the input. */
  readonly at: number;
  readonly type: SessionPort['type'];
  /** Whether the colours are planes: [batch, colours, height, width]. */
  readonly isPlanar: boolean;
  /** 1 is grey. */
  readonly colours: 1 | 3;
}

type Dim = number | string | undefined;

/** The input beside the picture that says which pixels are no bars; all of them count. */
export const PIXEL_MASK = 'pixel_mask';

/**
 * @param values the options of the preset
 * @throws Error for users if the model takes no picture, or if its size is not known
 */
export function findPictureInput({ inputs }: Ports, values: TaskValues, file: ModelFile): PictureInput {
  const at = inputs.findIndex(({ shape }) => shape.length === 4);
  const port = inputs[at];
  const other = inputs.find(({ name }, index) => index !== at && name !== PIXEL_MASK);
  if (!port || other) {
    const what = port ? `the model has the input "${other?.name}" beside the picture` : 'no input has four dimensions';
    throw new Error(`"takes": "picture": ${what}; the inputs are ${inputs.map(describePort).join(', ')}`);
  }
  if (!port.type.startsWith('float') && !['uint8', 'int32', 'int64'].includes(port.type))
    throw new Error(`"takes": "picture": the input "${port.name}" has the type ${port.type}`);
  const isPlanar = isPlanarIn(port.shape, values['layout']);
  const [, second, third, fourth] = port.shape;
  const [colours, height, width] = isPlanar ? [second, third, fourth] : [fourth, second, third];
  if (typeof colours === 'number' && colours !== 1 && colours !== 3)
    throw new Error(`"layout": the input ${describePort(port)} would have ${colours} colours`);
  const size = sizeOf(port, [width, height], String(values['size']), file);
  return { at, type: port.type, isPlanar, colours: colours === 1 ? 1 : 3, ...size };
}

function isPlanarIn(shape: SessionPort['shape'], layout: unknown): boolean {
  if (layout !== 'auto') return layout === 'nchw';
  const [, second, , last] = shape;
  const looksLikeColours = (dim: Dim): number => (dim === 3 || /chan/i.test(String(dim)) ? 2 : dim === 1 ? 1 : 0);
  return looksLikeColours(second) >= looksLikeColours(last);
}

function sizeOf(port: SessionPort, dims: readonly [Dim, Dim], given: string, { metadata }: ModelFile): Size {
  const [width, height = width] = given === '' ? [] : given.split(/[x×]/).map(Number);
  // Ultralytics has them as a list, the height first.
  const [tall, wide = tall] = (metadata.get('imgsz')?.match(/\d+/g) ?? []).map(Number);
  const [own, other] = dims.map((dim, at) => (typeof dim === 'number' ? dim : [width ?? wide, height ?? tall][at]));
  if (own === undefined || other === undefined || own < 1 || other < 1)
    throw new Error(`"size" is missing: the input ${describePort(port)} does not say the size of its pictures`);
  if ((width ?? own) !== own || (height ?? other) !== other)
    throw new Error(`"size" is ${given}, and the model takes ${own}x${other}: ${describePort(port)}`);
  return { width: own, height: other };
}
