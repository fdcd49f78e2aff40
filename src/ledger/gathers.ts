/**
 * The table of gathers: each waits for the branches of one message, and settles exactly once.
 *
 *   (none)    -> gathering   the first branch comes
 *   gathering -> gathering   another branch comes, and more are wanted
 *   gathering -> settled     enough results, too many failures, the time is up, or nobody waits for it any more
 *   settled   -> settled     a late branch comes: it is counted, and goes no further
 *   settled   -> (none)      many later gathers have settled
 *
 * A gather that has settled keeps nothing of its message but the id.
 */
import type { Clock, Deadline, Timer } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';

export interface GatherTerms {
  readonly mode: 'all' | 'first' | 'quorum';
  /** As configured; 0: more than half of the branches. */
  readonly quorum: number;
  readonly partial: 'error' | 'keep';
  /** Number of branches. */
  readonly total: number;
  /** Names of all branches, for the error of a gather that lacks some; empty if only the messages know them. */
  readonly names: readonly string[];
}

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

type Gather<Message> =
  | {
      readonly tag: 'gathering';
      readonly terms: GatherTerms;
      readonly branches: Map<string, Branch<Message>>;
      readonly timer: Timer | null;
      readonly settle: (gathered: Gathered<Message>) => void;
    }
  | { readonly tag: 'settled' };

/** Most settled gathers that are remembered for their late branches. */
const MOST_SETTLED = 10_000;

export interface GatherCounts {
  readonly pending: number;
  readonly late: number;
  readonly duplicates: number;
}

/** `taken`: the gather has the branch. Another branch goes no further. */
export type BranchPlace = 'taken' | 'late' | 'duplicate';

export class Gathers<Message> {
  readonly #clock: Clock;
  readonly #gathers: Map<string, Gather<Message>> = new Map();
  /** Ids of settled gathers, the earliest first. */
  readonly #settled: Set<string> = new Set();
  #late = 0;
  #duplicates = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Numbers of gathers that wait, and of branches that came too late or twice. */
  get counts(): GatherCounts {
    return { pending: this.#gathers.size - this.#settled.size, late: this.#late, duplicates: this.#duplicates };
  }

  isPending(id: string): boolean {
    return this.#gathers.get(id)?.tag === 'gathering';
  }

  /** Whether the gather waits, or has settled and is remembered. */
  has(id: string): boolean {
    return this.#gathers.has(id);
  }

  /** Opens a gather. @param settle called exactly once, unless the gather is dropped */
  open(id: string, terms: GatherTerms, deadline: Deadline, settle: (gathered: Gathered<Message>) => void): void {
    if (this.has(id)) throw new Error(`gather ${id} is open already`);
    const isEndless = deadline === Number.POSITIVE_INFINITY;
    const timer = isEndless ? null : this.#clock.at(deadline, () => this.#expire(id));
    this.#gathers.set(id, { tag: 'gathering', terms, branches: new Map(), timer, settle });
  }

  /** Adds a branch to a gather. The first outcome of a branch counts. */
  add(id: string, branch: Branch<Message>): BranchPlace {
    const gather = this.#gathers.get(id);
    if (gather?.tag !== 'gathering') {
      this.countLate();
      return 'late';
    }
    if (gather.branches.has(branch.name)) {
      this.#duplicates += 1;
      return 'duplicate';
    }
    gather.branches.set(branch.name, branch);
    const verdict = judge(gather.terms, [...gather.branches.values()]);
    if (verdict !== 'wait') this.#settle(id, verdict);
    return 'taken';
  }

  /** Counts a branch whose gather has been forgotten. */
  countLate(): void {
    this.#late += 1;
  }

  /** Ends a gather that nobody waits for. @returns the branches that had come */
  drop(id: string): readonly Branch<Message>[] {
    const gather = this.#gathers.get(id);
    if (gather?.tag !== 'gathering') return [];
    this.#end(id, gather.timer);
    return [...gather.branches.values()];
  }

  /** Settles all gathers that wait with an error. */
  failAll(error: ModeletError): void {
    for (const [id, { tag }] of [...this.#gathers]) if (tag === 'gathering') this.#settle(id, error);
  }

  #expire(id: string): void {
    const gather = this.#gathers.get(id);
    if (gather?.tag !== 'gathering') return;
    const { terms } = gather;
    const branches = [...gather.branches.values()];
    const missing = terms.names.filter((name) => !gather.branches.has(name));
    const isEnough = terms.partial === 'keep' && branches.some(({ error }) => !error);
    this.#settle(id, isEnough ? null : expired(terms, branches, missing), missing);
  }

  #settle(id: string, error: ModeletError | null, missing: readonly string[] = []): void {
    const gather = this.#gathers.get(id);
    if (gather?.tag !== 'gathering') return;
    this.#end(id, gather.timer);
    gather.settle({ branches: [...gather.branches.values()], missing, error });
  }

  #end(id: string, timer: Timer | null): void {
    timer?.cancel();
    this.#gathers.set(id, { tag: 'settled' });
    this.#settled.add(id);
    if (this.#settled.size <= MOST_SETTLED) return;
    const [earliest] = this.#settled;
    this.#settled.delete(earliest as string);
    this.#gathers.delete(earliest as string);
  }
}

/** Returns how many results end a gather. */
export function neededOf({ mode, quorum, total }: Pick<GatherTerms, 'mode' | 'quorum' | 'total'>): number {
  if (mode === 'first') return 1;
  if (mode === 'all') return total;
  return quorum === 0 ? Math.floor(total / 2) + 1 : quorum;
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
  const { code, message, stage, retryAfterSeconds, details } = first.error;
  const others = failures.length === 1 ? '' : ` (${failures.length} of ${total} branches failed)`;
  return new ModeletError(code, `branch ${first.name}: ${message}${others}`, {
    cause: first.error,
    ...(stage === undefined ? {} : { stage }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    ...(details === undefined ? {} : { details }),
  });
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
