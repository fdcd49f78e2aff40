/**
 * Proves that a batch does not change answers, or shows a case in which it does: runs inputs alone, together, in
 * another order, and beside inputs a hundred times larger, and compares the answers.
 *
 * It serves any source: a row is what the source runs, such as tensors or an example.
 */
import type { Clock } from '../../../core/clock.ts';
import { isModeletError } from '../../../core/errors.ts';
import type { BatchWarning } from '../../../core/model.ts';
import { describeDifference, differenceOf } from './alike.ts';

export interface Subject<Row> {
  readonly clock: Clock;
  /** Runs the rows in one call. Returns an answer or an Error for each; never rejects. */
  run(rows: readonly Row[]): Promise<readonly unknown[]>;
  /** Returns the row with numbers `SCALE` times larger, in several ways; the first that works is used. */
  enlarged(row: Row): readonly Row[];
}

/**
 *   same       a batch answers as single calls do
 *   differs    it does not
 *   unproven   fewer than two rows work, or all have the same answer, so that a mix-up would not show
 */
export type Proof = { readonly tag: 'same' } | { readonly tag: 'differs' | 'unproven'; readonly why: string };

interface Tried<Row> {
  readonly row: Row;
  readonly answer: unknown;
}

export const SCALE = 100;
const MOST_LARGE = 2;

/** @param rows inputs that differ; those that fail alone are left out */
export async function proveBatch<Row>(rows: readonly Row[], subject: Subject<Row>): Promise<Proof> {
  const tried: Tried<Row>[] = [];
  let failure = '';
  for (const row of rows) {
    const answer = await alone(row, subject);
    // There are not as many answers as rows, whatever the rest of them says.
    if (isModeletError(answer) && answer.code === 'bad_batch_length') return { tag: 'differs', why: answer.message };
    if (answer instanceof Error) failure ||= ` (${answer.message})`;
    else tried.push({ row, answer });
  }
  const [first, second] = tried;
  if (!first || !second) return { tag: 'unproven', why: `no two inputs could be tried${failure}: give examples` };
  if (differenceOf(first.answer, await alone(first.row, subject)))
    return { tag: 'differs', why: 'the same input has another result each time' };
  const large = await enlarge(tried, subject);
  const reversed = [...tried].reverse();
  for (const order of [tried, reversed, [first, ...large, second], [...large, ...reversed]]) {
    const why = await compare(order, subject);
    if (why !== null) return { tag: 'differs', why: why + (await costOf(tried, subject)) };
  }
  if ([...tried, ...large].some(({ answer }) => differenceOf(first.answer, answer))) return { tag: 'same' };
  return {
    tag: 'unproven',
    why: 'the inputs that were tried have the same result: give examples whose results differ',
  };
}

/** Says why a batch is not tried, or what its trial has shown. */
export function singly(why: string): BatchWarning {
  return { items: 'singly', text: `items run one by one: ${why}` };
}

async function alone<Row>(row: Row, subject: Subject<Row>): Promise<unknown> {
  const [answer] = await subject.run([row]);
  return answer;
}

async function enlarge<Row>(tried: readonly Tried<Row>[], subject: Subject<Row>): Promise<Tried<Row>[]> {
  const large: Tried<Row>[] = [];
  for (const { row } of tried) {
    for (const larger of large.length < MOST_LARGE ? subject.enlarged(row) : []) {
      const answer = await alone(larger, subject);
      if (answer instanceof Error) continue;
      large.push({ row: larger, answer });
      break;
    }
  }
  return large;
}

/** Returns the first difference between the answers alone and those together, in words, or null. */
async function compare<Row>(order: readonly Tried<Row>[], subject: Subject<Row>): Promise<string | null> {
  const together = await subject.run(order.map(({ row }) => row));
  for (const [index, { answer }] of order.entries()) {
    const other = together[index];
    if (other instanceof Error) return `several inputs fail together: ${other.message}`;
    const difference = differenceOf(answer, other);
    if (difference) return `results depend on other inputs of the batch: ${describeDifference(difference)}`;
  }
  return null;
}

/** Says how much longer single calls take than one call, if they take longer. */
async function costOf<Row>(tried: readonly Tried<Row>[], subject: Subject<Row>): Promise<string> {
  const { clock } = subject;
  const startedAt = clock.now();
  for (const { row } of tried) await alone(row, subject);
  const singlyAt = clock.now();
  await subject.run(tried.map(({ row }) => row));
  const [singly, together] = [singlyAt - startedAt, clock.now() - singlyAt];
  if (!(singly > together)) return '';
  return ` (${tried.length} inputs take ${ms(singly)} ms one by one, ${ms(together)} ms together)`;
}

function ms(duration: number): string {
  return String(Number(duration.toPrecision(2)));
}
