/**
 * Gathers: each waits for the branches of one message or item, and settles exactly once.
 *
 *   gathering -> gathering   another branch comes, and more are wanted
 *   gathering -> settled     enough results, too many failures, the time is up, or its result is no longer wanted
 *   settled   -> settled     a late branch comes: it goes no further
 */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { ModeletError, prefixed } from '../../core/errors.ts';
import { type BranchOutcome, type GatherTerms, neededOf } from '../../core/routes/gather.ts';

/** One branch as it came: the message with its result, or with the error that ended it. */
export interface Branch<Message> {
  readonly name: string;
  readonly message: Message;
  readonly error: ModeletError | null;
}

/** A gather at its end. `error`: null if the results are enough. */
export interface Gathered<Message> {
  readonly branches: readonly Branch<Message>[];
  /** Names of the branches that did not come in time. */
  readonly missing: readonly string[];
  readonly error: ModeletError | null;
}

type GatherState<Message> =
  | { readonly tag: 'gathering'; readonly branches: Map<string, Branch<Message>>; readonly timer: Timer | null }
  | { readonly tag: 'settled' };

/** `taken`: the gather has the branch. Another branch goes no further. */
export type BranchPlace = 'taken' | 'late' | 'duplicate';

export class Gather<Message> {
  readonly #terms: GatherTerms;
  readonly #onSettled: (gathered: Gathered<Message>) => void;
  #state: GatherState<Message>;

  /** @param onSettled called exactly once, unless the gather is dropped */
  constructor(terms: GatherTerms, clock: Clock, deadline: Deadline, onSettled: (gathered: Gathered<Message>) => void) {
    this.#terms = terms;
    this.#onSettled = onSettled;
    const timer = deadline === Number.POSITIVE_INFINITY ? null : clock.at(deadline, () => this.#expire());
    this.#state = { tag: 'gathering', branches: new Map(), timer };
  }

  get isPending(): boolean {
    return this.#state.tag === 'gathering';
  }

  /** Adds a branch. The first outcome of a branch counts. */
  add(branch: Branch<Message>): BranchPlace {
    if (this.#state.tag !== 'gathering') return 'late';
    const { branches } = this.#state;
    if (branches.has(branch.name)) return 'duplicate';
    branches.set(branch.name, branch);
    const verdict = judge(this.#terms, [...branches.values()]);
    if (verdict !== 'wait') this.#settle(verdict);
    return 'taken';
  }

  /** Ends a gather whose result is no longer wanted. Returns the branches that had come. */
  drop(): readonly Branch<Message>[] {
    return this.#end() ?? [];
  }

  fail(error: ModeletError): void {
    this.#settle(error);
  }

  #expire(): void {
    if (this.#state.tag !== 'gathering') return;
    const branches = [...this.#state.branches.values()];
    const missing = this.#terms.names.filter((name) => !branches.some((branch) => branch.name === name));
    const isEnough = this.#terms.partial === 'keep' && branches.some(({ error }) => !error);
    this.#settle(isEnough ? null : expired(this.#terms, branches, missing), missing);
  }

  #settle(error: ModeletError | null, missing: readonly string[] = []): void {
    const branches = this.#end();
    if (branches) this.#onSettled({ branches, missing, error });
  }

  #end(): readonly Branch<Message>[] | null {
    if (this.#state.tag !== 'gathering') return null;
    const { branches, timer } = this.#state;
    timer?.cancel();
    this.#state = { tag: 'settled' };
    return [...branches.values()];
  }
}

/** Most settled gathers that are remembered for their late branches. */
const MOST_SETTLED = 10_000;

export interface GatherCounts {
  readonly pending: number;
  readonly late: number;
  readonly duplicates: number;
}

/** The gathers of one node, by id. Of a settled gather, the table keeps only the id. */
export class Gathers<Message> {
  readonly #clock: Clock;
  readonly #pending: Map<string, Gather<Message>> = new Map();
  /** Ids of settled gathers, the earliest first. */
  readonly #settled: Set<string> = new Set();
  #late = 0;
  #duplicates = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Numbers of gathers that wait, and of branches that came too late or twice. */
  get counts(): GatherCounts {
    return { pending: this.#pending.size, late: this.#late, duplicates: this.#duplicates };
  }

  isPending(id: string): boolean {
    return this.#pending.has(id);
  }

  /** Whether the gather waits, or has settled and is remembered. */
  has(id: string): boolean {
    return this.#pending.has(id) || this.#settled.has(id);
  }

  /** Opens a gather. @param settle called exactly once, unless the gather is dropped */
  open(id: string, terms: GatherTerms, deadline: Deadline, settle: (gathered: Gathered<Message>) => void): void {
    if (this.has(id)) throw new Error(`gather ${id} is open already`);
    const gather = new Gather<Message>(terms, this.#clock, deadline, (gathered) => {
      this.#ended(id);
      settle(gathered);
    });
    this.#pending.set(id, gather);
  }

  add(id: string, branch: Branch<Message>): BranchPlace {
    const place = this.#pending.get(id)?.add(branch) ?? 'late';
    if (place === 'late') this.countLate();
    if (place === 'duplicate') this.#duplicates += 1;
    return place;
  }

  /** Counts a branch whose gather has been forgotten. */
  countLate(): void {
    this.#late += 1;
  }

  /** Ends a gather whose result is no longer wanted. @returns the branches that had come */
  drop(id: string): readonly Branch<Message>[] {
    const gather = this.#pending.get(id);
    if (!gather) return [];
    this.#ended(id);
    return gather.drop();
  }

  /** Settles all gathers that wait with an error. */
  failAll(error: ModeletError): void {
    for (const gather of [...this.#pending.values()]) gather.fail(error);
  }

  #ended(id: string): void {
    this.#pending.delete(id);
    this.#settled.add(id);
    if (this.#settled.size <= MOST_SETTLED) return;
    const [earliest] = this.#settled;
    this.#settled.delete(earliest as string);
  }
}

/** Returns what became of each branch, by name. */
export function outcomesOf({
  branches,
  missing,
}: Pick<Gathered<unknown>, 'branches' | 'missing'>): Record<string, BranchOutcome> {
  const came = branches.map(({ name, error }): [string, BranchOutcome] => {
    return [name, error ? { ok: false, code: error.code, message: error.message } : { ok: true }];
  });
  const late: BranchOutcome = { ok: false, code: 'deadline_exceeded', message: 'no result came in time' };
  return Object.fromEntries([...came, ...missing.map((name): [string, BranchOutcome] => [name, late])]);
}

/** Returns null if the results are enough, an error if enough can no longer come, else `wait`. */
function judge<Message>(terms: GatherTerms, branches: readonly Branch<Message>[]): ModeletError | null | 'wait' {
  const results = resultsOf(branches);
  const toCome = terms.total - branches.length;
  if (results >= neededOf(terms)) return null;
  if (terms.partial === 'error') return results + toCome < neededOf(terms) ? failed(terms, branches) : 'wait';
  if (toCome > 0) return 'wait';
  return results > 0 ? null : failed(terms, branches);
}

function resultsOf<Message>(branches: readonly Branch<Message>[]): number {
  return branches.filter(({ error }) => !error).length;
}

/** Returns the error of the first branch that failed, with its name in front. */
function failed<Message>({ total }: GatherTerms, branches: readonly Branch<Message>[]): ModeletError {
  const failures = branches.filter(({ error }) => error);
  const [first] = failures;
  if (!first?.error) return new ModeletError('config_invalid', 'no branch can come');
  const others = failures.length === 1 ? '' : ` (${failures.length} of ${total} branches failed)`;
  return prefixed(`branch ${first.name}`, first.error, others);
}

function expired<Message>(
  terms: GatherTerms,
  branches: readonly Branch<Message>[],
  missing: readonly string[],
): ModeletError {
  const lacks = missing.length === 0 ? '' : `; missing: ${missing.join(', ')}`;
  const text = `${resultsOf(branches)} of ${neededOf(terms)} results came in time${lacks}`;
  return new ModeletError('deadline_exceeded', text);
}
