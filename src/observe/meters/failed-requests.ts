/** Counts failed requests by stage and code, with the message of the last, and which of them no user has read. */
import { type ErrorCode, isOfRequest, type ModeletError } from '../../core/errors.ts';
import type { FailureCount } from '../../core/readings.ts';
import { messageWithPlace } from '../log/failures.ts';

/** Outcomes that tell of no failure: a queue drops by design, a client leaves, a deploy ends what runs. */
const NO_FAILURES: ReadonlySet<ErrorCode> = new Set(['dropped', 'cancelled', 'shutting_down']);
/** Errors because more came than could be done in time. */
const OF_LOAD: ReadonlySet<string> = new Set<ErrorCode>(['capacity_exceeded', 'gate_refused', 'deadline_exceeded']);

/** @returns what has caused a failure with the code */
export function causeOf(code: string): 'client' | 'load' | 'pipeline' {
  if (isOfRequest(code)) return 'client';
  return OF_LOAD.has(code) ? 'load' : 'pipeline';
}

/** Most pairs of stage and code. */
const MOST = 200;
/** Characters kept of a message, which may quote a client. */
const LONGEST = 300;

type FailedRequest = Pick<ModeletError, 'code' | 'message'> &
  Partial<Pick<ModeletError, 'stack' | 'cause'>> & { readonly stage?: string | undefined };

export class FailedRequests {
  readonly #counts: Map<string, Omit<FailureCount, 'isLast'>> = new Map();
  /** The failure that was the last answer, by the node at which requests enter. Those that a client has caused tell nothing. */
  readonly #last: Map<string, string> = new Map();

  /**
   * @param at on the monotonic clock
   * @param entry the node at which the request entered; null: it was refused before
   */
  note(error: FailedRequest, at: number, entry: string | null = null): void {
    const { code, stage } = error;
    if (NO_FAILURES.has(code)) return;
    const message = messageWithPlace(error);
    const failure = { stage: stage ?? null, code, message: shortened(message), count: 1, at };
    const key = failureKey(failure);
    const count = this.#counts.get(key)?.count ?? 0;
    // The latest last. Of too many, the earliest is forgotten: its stage may have another name by now.
    this.#counts.delete(key);
    this.#counts.set(key, { ...failure, count: count + 1 });
    if (this.#counts.size > MOST) this.#counts.delete(this.#counts.keys().next().value as string);
    const tells = causeOf(code) === 'pipeline' || code === 'deadline_exceeded';
    if (entry !== null && tells) this.#last.set(entry, key);
  }

  /** A request had a result. */
  answered(entry: string): void {
    if (this.#last.size > 0) this.#last.delete(entry);
  }

  /** Forgets the last answers of all but these entries. */
  keep(entries: { has(entry: string): boolean }): void {
    for (const entry of this.#last.keys()) if (!entries.has(entry)) this.#last.delete(entry);
  }

  list(): FailureCount[] {
    const last = new Set(this.#last.values());
    return [...this.#counts].map(([key, failure]) => ({ ...failure, isLast: last.has(key) }));
  }
}

/** Adds the counts of two tables. */
export function addFailures(some: readonly FailureCount[], others: readonly FailureCount[]): FailureCount[] {
  const sums = new Map(some.map((failure) => [failureKey(failure), failure]));
  for (const failure of others) {
    const known = sums.get(failureKey(failure));
    const later = known && known.at > failure.at ? known : failure;
    const isLast = failure.isLast || known?.isLast === true;
    sums.set(failureKey(failure), { ...later, isLast, count: failure.count + (known?.count ?? 0) });
  }
  return [...sums.values()];
}

/**
 * Remembers which failures and deaths of a runtime users have read. A failure is counted by the name that its stage had then;
 * here it bears the name of now.
 */
export class ReadFailures {
  /** Counts that have been read, by code and node. */
  #counts: Map<string, number> = new Map();
  /** The node that bore each name last. */
  readonly #ids: Map<string, string> = new Map();
  /** The present names, by node. */
  #names: ReadonlyMap<string, string> = new Map();
  /** When they read last, on the monotonic clock. */
  at: number = Number.NEGATIVE_INFINITY;

  /** A user has read all of these. */
  mark(failures: readonly FailureCount[], at: number): void {
    this.#counts = new Map(failures.map((failure) => [this.#keyOf(failure), failure.count]));
    this.at = at;
  }

  /** Takes the names of a deploy. The failures so far are no news if their stage is gone, or its name has another now. */
  deployed(stages: readonly { readonly id: string; readonly name: string }[], failures: readonly FailureCount[]): void {
    const before = new Map(this.#ids);
    this.#names = new Map(stages.map(({ id, name }) => [id, name]));
    for (const { id, name } of stages) this.#ids.set(name, id);
    const past = failures.filter(({ stage }) => {
      const id = this.#ids.get(stage ?? '');
      return id !== undefined && (id !== before.get(stage ?? '') || !this.#names.has(id));
    });
    for (const failure of past) this.#counts.delete(this.#keyOf(failure));
    for (const failure of past) {
      const key = this.#keyOf(failure);
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + failure.count);
    }
  }

  /** Returns the failures by the present names of their stages, without those of stages that are gone. */
  present(failures: readonly FailureCount[]): FailureCount[] {
    const renamed = failures.flatMap((failure) => {
      const id = this.#ids.get(failure.stage ?? '');
      const stage = id === undefined ? failure.stage : this.#names.get(id);
      return stage === undefined ? [] : [{ ...failure, stage }];
    });
    return addFailures([], renamed);
  }

  /** Returns those that a user has read of, and that still are the last answer of an entry. */
  lasting(failures: readonly FailureCount[]): FailureCount[] {
    return failures.filter(
      (failure) => failure.isLast && failure.count <= (this.#counts.get(this.#keyOf(failure)) ?? 0),
    );
  }

  /** Returns those that came since, the latest first. */
  unread(failures: readonly FailureCount[]): FailureCount[] {
    return failures
      .map((failure) => ({ ...failure, count: failure.count - (this.#counts.get(this.#keyOf(failure)) ?? 0) }))
      .filter(({ count }) => count > 0)
      .sort((a, b) => b.at - a.at);
  }

  #keyOf({ stage, code }: Pick<FailureCount, 'stage' | 'code'>): string {
    return failureKey({ code, stage: this.#ids.get(stage ?? '') ?? stage });
  }
}

export function failureKey({ stage, code }: Pick<FailureCount, 'stage' | 'code'>): string {
  return `${code} ${stage ?? ''}`;
}

function shortened(message: string): string {
  const [line = ''] = message.slice(0, LONGEST + 1).split('\n', 1);
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}\u2026` : line;
}
