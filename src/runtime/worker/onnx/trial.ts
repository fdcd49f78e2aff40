/** Proves by trial whether items may run together: see batch/proof.ts. Rows come from the examples, or are made. */
import type { Clock } from '../../../core/clock.ts';
import { sizeOf } from '../../../core/tensor.ts';
import { type Proof, proveBatch, SCALE, type Subject } from '../batch/proof.ts';
import { type ElementType, makeElements, type TensorElements, toElements } from './elements.ts';
import { type Ports, type SessionPort, type Stacking, stackingToProve } from './ports.ts';
import type { ItemPart, ItemParts } from './read-item.ts';
import { type Model, rowOf, runItems } from './run-items.ts';

/** Reads the examples that can be read, as items. */
type ReadExamples = (stacking: Stacking) => readonly ItemParts[];

/** One row for each input: parts whose first dimension is 1. */
type TrialRow = readonly ItemPart[];

/** How items run, and why a batch is slower than it could be, or gives wrong results; null if it does neither. */
export interface FoundStacking extends Pick<Model, 'stacking' | 'padding'> {
  readonly warning: string | null;
  /** Why inputs are not padded, though the stage is set so; null if they are, or need not be. */
  readonly unpadded: string | null;
}

/** Sizes to try for open dimensions. Some models reject small ones. */
const OPEN_SIZES = [4, 32, 224];
const MOST_ELEMENTS = 10_000_000;
const MADE_ROWS = 3;
const MOST_EXAMPLES = 2;

/**
 * Decides by a trial. Padding that changes answers is left out, whatever the user's setting is for the batch.
 * @param forced the user's setting, which the trial does not change; null if not set
 */
export async function findStacking(
  { ports, padding, run }: Omit<Model, 'stacking'>,
  forced: boolean | null,
  examples: ReadExamples,
  clock: Clock,
): Promise<FoundStacking> {
  if (forced === false) return singly('the stage is set so', null);
  const stacking = stackingToProve(ports);
  if (stacking.tag === 'single') return singly(stacking.why, stacking.why);
  const padded = padding && (await prove({ ports, stacking, padding, run }, examples, clock));
  if (padded?.tag === 'same') return { stacking, padding, warning: null, unpadded: null };
  const unpadded = padded && `"pad" is left out: ${padded.why}`;
  const proof = await prove({ ports, stacking, padding: null, run }, examples, clock);
  if (proof.tag === 'same') return { stacking, padding: null, warning: null, unpadded };
  if (forced) return { stacking, padding: null, warning: proof.tag === 'differs' ? proof.why : null, unpadded };
  const why = proof.tag === 'differs' ? proof.why : `${proof.why}, or set "batch": true if results do not mix`;
  return singly(why, why);
}

function singly(why: string, warning: string | null): FoundStacking {
  return { stacking: { tag: 'single', why }, padding: null, warning, unpadded: null };
}

async function prove(model: Model, examples: ReadExamples, clock: Clock): Promise<Proof> {
  const { ports, stacking, padding } = model;
  const subject: Subject<TrialRow> = {
    clock,
    run: async (rows) => {
      const items = rows.map((parts) => ({ parts, isRow: true }));
      const results = await runItems(items, model);
      return results.map((outputs) =>
        outputs instanceof Error
          ? outputs
          : Object.fromEntries(outputs.map((tensor, at) => [ports.outputs[at]?.name ?? at, tensor])),
      );
    },
    // Integers may be indexes, which cannot be larger.
    enlarged: (row) => [true, false].map((integers) => scaled(row, ports.inputs, { by: SCALE, integers })),
  };
  const given = givenRows(examples(stacking));
  let proof: Proof = { tag: 'unproven', why: 'no two inputs could be tried: give examples' };
  for (const size of given[0] ? [0] : OPEN_SIZES) {
    const alike = [...given, ...reorderedRows(given), ...madeRows(ports, given[0] ?? null, size)];
    const shorter = padding ? alike.map((row) => padding.shortened(row, ports.inputs)) : [];
    proof = await proveBatch([...alike, ...shorter], subject);
    if (proof.tag !== 'unproven') return proof;
  }
  return proof;
}

/** Returns single rows of the examples, of the shape of the first one. */
function givenRows(examples: readonly ItemParts[]): TrialRow[] {
  const rows = examples.flatMap(rowsOf);
  const shapeOf = (row: TrialRow): string => row.map(({ dims }) => dims.join()).join(';');
  const [first] = rows;
  return first ? rows.filter((row) => shapeOf(row) === shapeOf(first)).slice(0, MOST_EXAMPLES) : [];
}

function rowsOf({ parts }: ItemParts): TrialRow[] {
  const count = parts[0]?.dims[0] ?? 0;
  if (parts.some(({ dims }) => dims[0] !== count)) return [];
  return Array.from({ length: Math.min(count, MOST_EXAMPLES) }, (_, row) =>
    parts.map((part) => rowOf(part, row, count)),
  );
}

/** Returns the first row with its elements in the opposite order: values that the model takes, such as indexes. */
function reorderedRows([first]: readonly TrialRow[]): TrialRow[] {
  return first ? [first.map(({ dims, data }) => ({ dims, data: data.slice().reverse() as TensorElements }))] : [];
}

/** Generates rows with the shape of `like`, or with `size` for each open dimension if `like` is null. */
function madeRows({ inputs }: Ports, like: TrialRow | null, size: number): TrialRow[] {
  const shapes = inputs.map(
    ({ shape }, at) => like?.[at]?.dims ?? [1, ...shape.slice(1).map((dim) => (typeof dim === 'string' ? size : dim))],
  );
  if (shapes.some((dims) => sizeOf(dims) > MOST_ELEMENTS)) return [];
  let seed = 1;
  // Park-Miller generator: gives the same numbers each time.
  const random = (): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const rows = Array.from({ length: MADE_ROWS }, (_, row) =>
    inputs.map((port, at) => madePart(port, shapes[at] as readonly number[], () => made(port, random(), row))),
  );
  // A model that leaves out rows by a score leaves out either a number or its opposite.
  return [...rows, scaled(rows[1] as TrialRow, inputs, { by: -1, integers: false })];
}

function madePart({ type }: SessionPort, dims: readonly number[], make: () => number | bigint | string): ItemPart {
  const data = makeElements(type, sizeOf(dims));
  for (let index = 0; index < data.length; index += 1) (data as unknown[])[index] = make();
  return { dims, data };
}

/** Generates an element. Integers are 0 or 1, because they may be indexes. */
function made({ type }: SessionPort, random: number, row: number): number | bigint | string {
  if (type === 'string') return String.fromCharCode(97 + row);
  if (type.startsWith('float')) return (2 * random - 1) * 4 ** row;
  const bit = random < 0.5 ? 0 : 1;
  return type === 'int64' || type === 'uint64' ? BigInt(bit) : bit;
}

/** Multiplies the fractions of a row, and its integers too if wanted. */
function scaled(
  row: TrialRow,
  inputs: readonly SessionPort[],
  { by, integers }: { by: number; integers: boolean },
): TrialRow {
  return row.map((part, at) => {
    const { type } = inputs[at] as SessionPort;
    return type.startsWith('float') || integers ? { dims: part.dims, data: multiplied(part.data, type, by) } : part;
  });
}

/** Elements that the type cannot hold so large stay as they are. */
function multiplied(elements: TensorElements, type: ElementType, by: number): TensorElements {
  const products = Array.from(elements as ArrayLike<unknown>, (element) => {
    if (typeof element !== 'number' && typeof element !== 'bigint') return element;
    const product = typeof element === 'bigint' ? element * BigInt(by) : element * by;
    return typeof toElements(type, [product]) === 'number' ? element : product;
  });
  return toElements(type, products) as TensorElements;
}
