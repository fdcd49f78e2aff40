/**
 * Finds out by trial whether items may run together if the model does not say so: runs several rows alone and together
 * and compares the results. Models of scikit-learn, for example, have no name for their first dimension.
 */
import { isModeletError } from '../../core/errors.ts';
import { sizeOf } from '../../core/tensor.ts';
import { makeElements } from './elements.ts';
import { mayStack, type Port, type Ports, type Stacking, stackingOf } from './ports.ts';
import { type Part, readItem } from './read-item.ts';
import { type ItemOutputs, type RunSession, runItems, type SessionTensor } from './run-items.ts';

type Row = readonly Part[];

interface Tried {
  readonly row: Row;
  readonly outputs: ItemOutputs;
}

/** Sizes to try for open dimensions. Some models reject small ones. */
const OPEN_SIZES = [4, 32, 224];
const MOST_ELEMENTS = 10_000_000;
const MADE_ROWS = 3;
const MOST_EXAMPLES = 2;
const TOGETHER: Stacking = { tag: 'stacked', size: null, ownRows: true };

/** Decides by the user's setting, else by the model, else by a trial with the user's examples and generated rows. */
export async function findStacking(
  ports: Ports,
  run: RunSession,
  forced: boolean | null,
  examples: readonly unknown[],
): Promise<Stacking> {
  const said = stackingOf(ports, forced);
  if (said.tag === 'stacked' || forced !== null || !mayStack(ports)) return said;
  const why = await tryRows(ports, run, examples);
  return why === null ? TOGETHER : { tag: 'single', why: `${said.why}, and ${why}` };
}

/** Returns the reason why rows may not run together, or null if they may. */
async function tryRows(ports: Ports, run: RunSession, examples: readonly unknown[]): Promise<string | null> {
  const given = givenRows(ports, examples);
  let failure = '';
  for (const size of given.length > 0 ? [0] : OPEN_SIZES) {
    const outcomes = await runAlone([...given, ...madeRows(ports, given[0] ?? null, size)], ports, run);
    const tried = outcomes.filter((outcome): outcome is Tried => !(outcome instanceof Error));
    if (tried.length >= 2) return compare(tried, ports, run);
    const error = outcomes.find((outcome) => outcome instanceof Error);
    if (isModeletError(error)) return error.message;
    if (error) failure = ` (${error.message})`;
  }
  return `no two rows could be tried${failure}: give examples`;
}

function runAlone(rows: readonly Row[], ports: Ports, run: RunSession): Promise<(Tried | Error)[]> {
  return Promise.all(
    rows.map(async (row) => {
      const [outputs] = await runItems([row], ports, TOGETHER, run);
      return outputs instanceof Error ? outputs : { row, outputs: outputs as ItemOutputs };
    }),
  );
}

async function compare(tried: readonly Tried[], ports: Ports, run: RunSession): Promise<string | null> {
  const [first] = tried as [Tried];
  if (tried.every(({ outputs }) => areAlike(outputs, first.outputs))) {
    return 'the rows that were tried give the same results: give examples whose results differ';
  }
  const together = await runItems(
    tried.map(({ row }) => row),
    ports,
    TOGETHER,
    run,
  );
  for (const [index, outputs] of together.entries()) {
    if (outputs instanceof Error) return `several rows fail together: ${outputs.message}`;
    if (!areAlike((tried[index] as Tried).outputs, outputs)) return 'rows give other results together than alone';
  }
  return null;
}

/** Returns rows from the examples that have the shape of the first one. */
function givenRows({ inputs }: Ports, examples: readonly unknown[]): Row[] {
  const rows: Row[] = [];
  for (const example of examples) {
    try {
      rows.push(readItem(example, inputs, 'stacked'));
    } catch {
      // The warm-up reports an example that cannot be read.
    }
  }
  const shapeOf = (row: Row): string => row.map(({ dims }) => dims.join()).join(';');
  const [first] = rows;
  return first ? rows.filter((row) => shapeOf(row) === shapeOf(first)).slice(0, MOST_EXAMPLES) : [];
}

/** Generates rows with the shape of `like`, or with `size` for each open dimension if `like` is null. */
function madeRows({ inputs }: Ports, like: Row | null, size: number): Row[] {
  const shapes = inputs.map(
    ({ shape }, at) => like?.[at]?.dims ?? shape.slice(1).map((dim) => (typeof dim === 'string' ? size : dim)),
  );
  if (shapes.some((dims) => sizeOf(dims) > MOST_ELEMENTS)) return [];
  let seed = 1;
  // Park-Miller generator: gives the same numbers each time.
  const random = (): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  return Array.from({ length: MADE_ROWS }, (_, row) =>
    inputs.map((port, at) => madePart(port, shapes[at] as readonly number[], () => made(port, random(), row))),
  );
}

function madePart({ type }: Port, dims: readonly number[], make: () => number | bigint | string): Part {
  const data = makeElements(type, sizeOf(dims));
  for (let index = 0; index < data.length; index += 1) (data as unknown[])[index] = make();
  return { dims, data };
}

/** Generates an element. Integers are 0 or 1, because they may be indexes. */
function made({ type }: Port, random: number, row: number): number | bigint | string {
  if (type === 'string') return String.fromCharCode(97 + row);
  if (type.startsWith('float')) return (2 * random - 1) * 4 ** row;
  const bit = random < 0.5 ? 0 : 1;
  return type === 'int64' || type === 'uint64' ? BigInt(bit) : bit;
}

function areAlike(some: ItemOutputs, others: ItemOutputs): boolean {
  return some.every((tensor, at) => isLike(tensor, others[at] as SessionTensor));
}

/** Whether two tensors match. Floats may differ in their last digits: with more rows, sums run in another order. */
function isLike(one: SessionTensor, other: SessionTensor): boolean {
  if (one.dims.join() !== other.dims.join() || one.data.length !== other.data.length) return false;
  const numbers = one.data as ArrayLike<unknown>;
  let largest = 0;
  for (let index = 0; index < numbers.length; index += 1) {
    const size = Math.abs(Number(numbers[index]));
    if (size > largest && size !== Number.POSITIVE_INFINITY) largest = size;
  }
  const most = one.type.startsWith('float') ? largest * (one.type === 'float16' ? 1e-2 : 1e-3) : 0;
  for (let index = 0; index < numbers.length; index += 1) {
    const [a, b] = [numbers[index], other.data[index]];
    if (!Object.is(a, b) && !(Math.abs(Number(a) - Number(b)) <= most)) return false;
  }
  return true;
}
