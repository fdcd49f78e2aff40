/** Runs a batch through a session: stacks items into one tensor per input if the model allows, and splits outputs. */
import { ModeletError } from '../../core/errors.ts';
import { sizeOf } from '../../core/tensor.ts';
import { type Elements, type ElementType, makeElements, putElements } from './elements.ts';
import { describeShape, isBatch, type Port, type Ports, type Stacking } from './ports.ts';
import { type Part, runsAlone } from './read-item.ts';

export interface SessionTensor {
  readonly type: ElementType;
  readonly dims: readonly number[];
  readonly data: Elements;
}

/** Runs the model. Takes tensors by input name and returns one tensor per output, in the model's order. */
export type RunSession = (feeds: Readonly<Record<string, SessionTensor>>) => Promise<readonly SessionTensor[]>;

/** The outputs of one item, in the model's order. */
export type ItemOutputs = readonly SessionTensor[];

/** Returns one entry per item. An error fails only the items that ran together. */
export async function runItems(
  items: readonly (readonly Part[])[],
  ports: Ports,
  stacking: Stacking,
  run: RunSession,
): Promise<(ItemOutputs | Error)[]> {
  const results: (ItemOutputs | Error)[] = new Array(items.length);
  for (const group of groupsOf(items, ports.inputs, stacking)) {
    let outcome: readonly ItemOutputs[] | Error;
    try {
      outcome = await runGroup(
        group.map((index) => items[index] as readonly Part[]),
        ports,
        stacking,
        run,
      );
    } catch (thrown) {
      outcome = thrown as Error;
    }
    for (const [position, index] of group.entries()) {
      results[index] = outcome instanceof Error ? outcome : (outcome[position] as ItemOutputs);
    }
  }
  return results;
}

/** Groups the indexes of items that run together: items of the same shape, at most as many as the model takes. */
function groupsOf(items: readonly (readonly Part[])[], inputs: readonly Port[], stacking: Stacking): number[][] {
  if (stacking.tag === 'single') return items.map((_, index) => [index]);
  const byShape = new Map<string, number[]>();
  for (const [index, parts] of items.entries()) {
    const key = runsAlone(parts, inputs) ? `alone ${index}` : parts.map(({ dims }) => dims.join()).join(';');
    const known = byShape.get(key);
    if (known) known.push(index);
    else byShape.set(key, [index]);
  }
  const { size } = stacking;
  return [...byShape.values()].flatMap((group) => (size === null ? [group] : pieces(group, size)));
}

function pieces(group: readonly number[], size: number): number[][] {
  return Array.from({ length: Math.ceil(group.length / size) }, (_, at) => group.slice(at * size, (at + 1) * size));
}

async function runGroup(
  items: readonly (readonly Part[])[],
  ports: Ports,
  stacking: Stacking,
  run: RunSession,
): Promise<readonly ItemOutputs[]> {
  const [first = []] = items;
  if (stacking.tag === 'single' || runsAlone(first, ports.inputs)) return [await runOne(first, ports, run)];
  const count = stacking.size ?? items.length;
  const feeds = ports.inputs.map((port, at) => [
    port.name,
    stack(
      port,
      items.map((parts) => parts[at] as Part),
      count,
    ),
  ]);
  const tensors = await run(Object.fromEntries(feeds) as Record<string, SessionTensor>);
  for (const [at, tensor] of tensors.entries()) mustBeOf(count, ports.outputs[at] as Port, tensor);
  return items.map((_, index) => tensors.map((tensor) => split(tensor, index, count)));
}

async function runOne(parts: readonly Part[], { inputs, outputs }: Ports, run: RunSession): Promise<ItemOutputs> {
  const feeds = inputs.map((port, at) => [port.name, { ...(parts[at] as Part), type: port.type }]);
  const tensors = await run(Object.fromEntries(feeds) as Record<string, SessionTensor>);
  return tensors.map((tensor, at) => alone(outputs[at] as Port, tensor, inputs));
}

/** Stacks the parts of one input. Pads a batch of fixed size with copies of its first item. */
function stack({ type }: Port, parts: readonly Part[], count: number): SessionTensor {
  const first = parts[0] as Part;
  const size = sizeOf(first.dims);
  const data = makeElements(type, count * size);
  for (let at = 0; at < count; at += 1) putElements(data, (parts[at] ?? first).data, at * size);
  return { type, dims: [count, ...first.dims], data };
}

function mustBeOf(count: number, { name }: Port, { dims }: SessionTensor): void {
  if (dims[0] === count) return;
  throw new ModeletError(
    'bad_batch_length',
    `output "${name}" of shape ${describeShape(dims)} cannot be split into ${count} items: its first dimension is not the batch`,
  );
}

function split({ type, dims, data }: SessionTensor, index: number, count: number): SessionTensor {
  const size = data.length / count;
  return { type, dims: dims.slice(1), data: data.slice(index * size, (index + 1) * size) as Elements };
}

/** Removes a first dimension of 1 if it is the batch, as splitting does for stacked items. */
function alone({ shape }: Port, tensor: SessionTensor, inputs: readonly Port[]): SessionTensor {
  const ofBatch = shape[0] === 1 || inputs.some((input) => isBatch(shape[0], input.shape[0]));
  if (!ofBatch || tensor.dims[0] !== 1) return tensor;
  return { ...tensor, dims: tensor.dims.slice(1) };
}
