/** Runs a batch through a session: stacks items into one tensor per input if the model allows, and splits outputs. */
import { asError, isModeletError, ModeletError } from '../../../core/errors.ts';
import { counted } from '../../../core/figures.ts';
import { sizeOf } from '../../../core/tensor.ts';
import { makeElements, putElements, type SessionTensor, type TensorElements } from './elements.ts';
import type { Padding } from './padding.ts';
import { describeShape, type Ports, type SessionPort, type Stacking } from './ports.ts';
import type { ItemPart, ItemParts } from './read-item.ts';

/** Runs the model. Takes tensors by input name and returns one tensor per output, in the model's order. */
export type RunSession = (feeds: Readonly<Record<string, SessionTensor>>) => Promise<readonly SessionTensor[]>;

/** The outputs of one item, in the model's order. */
export type ItemOutputs = readonly SessionTensor[];

export interface Model {
  readonly ports: Ports;
  readonly stacking: Stacking;
  /** null: only items of the same shape run together. */
  readonly padding: Padding | null;
  readonly run: RunSession;
}

/** Returns one entry per item. Items whose run fails share one error. */
export async function runItems(items: readonly ItemParts[], model: Model): Promise<(ItemOutputs | Error)[]> {
  const results: (ItemOutputs | Error)[] = new Array(items.length);
  for (const group of groupsOf(items, model)) {
    const outcomes = await runTogether(
      group.map((index) => items[index] as ItemParts),
      model,
    );
    for (const [position, index] of group.entries()) {
      const outcome = outcomes[position] as ItemOutputs | Error;
      const { isRow } = items[index] as ItemParts;
      results[index] = isRow && !(outcome instanceof Error) ? withoutFirst(outcome, model) : outcome;
    }
  }
  return results;
}

/**
 * Groups the indexes of items that run together: single rows of the same shape, or of a shape that padding gives them, at
 * most as many as the model takes.
 */
function groupsOf(items: readonly ItemParts[], { stacking, padding }: Model): number[][] {
  if (stacking.tag === 'single') return items.map((_, index) => [index]);
  const { size } = stacking;
  const byShape = new Map<string, number[]>();
  for (const [index, { parts, isRow }] of items.entries()) {
    const isOneRow = isRow || (size === null && parts.every(({ dims }) => dims[0] === 1));
    const shapes = padding?.shapesOf(parts) ?? parts.map(({ dims }) => dims.join()).join(';');
    const key = isOneRow ? shapes : `alone ${index}`;
    const known = byShape.get(key);
    if (known) known.push(index);
    else byShape.set(key, [index]);
  }
  const alike = [...byShape.values()].flatMap((group) => {
    return padding?.runsOf(group, (item) => (items[item] as ItemParts).parts) ?? [group];
  });
  return alike.flatMap((group) => (size === null ? [group] : pieces(group, size)));
}

function pieces(group: readonly number[], size: number): number[][] {
  return Array.from({ length: Math.ceil(group.length / size) }, (_, at) => group.slice(at * size, (at + 1) * size));
}

async function runTogether(items: readonly ItemParts[], model: Model): Promise<readonly (ItemOutputs | Error)[]> {
  try {
    return await runGroup(items, model);
  } catch (thrown) {
    // It is unknown which of several items is to blame.
    const error = items.length === 1 ? failureOf(thrown) : asError(thrown);
    return items.map(() => error);
  }
}

async function runGroup(items: readonly ItemParts[], model: Model): Promise<readonly ItemOutputs[]> {
  const { ports, stacking, padding, run } = model;
  const [first] = items as [ItemParts];
  const size = stacking.tag === 'stacked' && first.isRow ? stacking.size : null;
  const count = size ?? items.length;
  const feeds = ports.inputs.map((port, at) => {
    const own = items.map((item) => item.parts[at] as ItemPart);
    const parts = padding?.filled(own, at, port) ?? own;
    return [port.name, count === 1 ? { ...(parts[0] as ItemPart), type: port.type } : stack(port, parts, count)];
  });
  const tensors = await run(Object.fromEntries(feeds) as Record<string, SessionTensor>);
  if (stacking.tag === 'single' || (items.length === 1 && !first.isRow)) return [tensors];
  for (const [at, tensor] of tensors.entries()) mustBeOf(count, ports.outputs[at] as SessionPort, tensor);
  return items.map(({ parts }, index) =>
    tensors.map((tensor, at) => {
      const row = { type: tensor.type, ...rowOf(tensor, index, count) };
      return padding?.cut(row, ports.outputs[at] as SessionPort, parts) ?? row;
    }),
  );
}

/** Stacks the parts of one input. Pads a batch of fixed size with copies of its first item. */
function stack({ type }: SessionPort, parts: readonly ItemPart[], count: number): SessionTensor {
  const first = parts[0] as ItemPart;
  const size = sizeOf(first.dims);
  const data = makeElements(type, count * size);
  for (let at = 0; at < count; at += 1) putElements(data, (parts[at] ?? first).data, at * size);
  return { type, dims: [count, ...first.dims.slice(1)], data };
}

function mustBeOf(count: number, { name }: SessionPort, { dims }: SessionTensor): void {
  if (dims[0] === count) return;
  throw new ModeletError(
    'bad_batch_length',
    `output "${name}" of shape ${describeShape(dims)} cannot be split into ${counted(count, 'item')}: its first dimension is not the batch`,
  );
}

/** Returns one row of a tensor that has `count` of them. */
export function rowOf(
  { dims, data }: Omit<SessionTensor, 'type'>,
  row: number,
  count: number,
): Omit<SessionTensor, 'type'> {
  const size = data.length / count;
  return { dims: [1, ...dims.slice(1)], data: data.slice(row * size, (row + 1) * size) as TensorElements };
}

/**
 * Removes the first dimension from the outputs of one row. If items run one by one, only from those outputs of which the
 * model says that it is the same as that of an input, or 1: an output may have any number of rows.
 */
function withoutFirst(
  outputs: ItemOutputs,
  { ports: { inputs, outputs: ports }, stacking: { tag } }: Model,
): ItemOutputs {
  return outputs.map((tensor, at) => {
    const [first] = ports[at]?.shape ?? [];
    const isOfInputs = first !== undefined && first !== '' && inputs.some(({ shape }) => shape[0] === first);
    const isRow = tag === 'stacked' || first === 1 || isOfInputs;
    return isRow && tensor.dims[0] === 1 ? { ...tensor, dims: tensor.dims.slice(1) } : tensor;
  });
}

/** Parts of the runtime's messages about inputs that the model cannot take, though they have its types and shapes. */
const OF_INPUT: readonly (readonly [RegExp, string])[] = [
  [
    /out of (data )?bounds|out of range|must be within the inclusive range|is not in valid range/i,
    'an index is out of range',
  ],
  [
    /broadcast|dimension mismatch|dimensions do ?n.t match|dimensions must match|invalid dimensions|cannot be reshaped|size mismatch|incompatible dimensions|must have the same|invalid rank|should be equal|not divisible/i,
    'the lengths of its dimensions do not fit together',
  ],
];

/** Returns the failure of a run of one item. The input causes it if the runtime says so. */
function failureOf(thrown: unknown): Error {
  const error = asError(thrown);
  const words = OF_INPUT.find(([pattern]) => pattern.test(error.message))?.[1];
  if (!words || isModeletError(error)) return error;
  return new ModeletError('invalid_input', `the model cannot take the input: ${words} (${error.message})`, {
    cause: error,
  });
}
