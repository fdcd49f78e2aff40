/**
 * The workers of a pool and their roles. One worker serves at each index. Workers are replaced because of their age,
 * their memory or a user's request, one at a time, so that a stage never needs memory for twice its workers: the
 * replacement is warm before it takes over, and the old worker finishes its batches and ends. stage-pools.ts says why a
 * whole pool is replaced by other rules.
 *
 *   serving      gets batches                                          -> retired (its replacement is ready, or the
 *                                                                         stage has fewer workers)
 *   replacement  starts, to serve at the index of the present worker   -> serving (ready) | retired (no longer wanted)
 *   retired      finishes its batches, ends and is forgotten
 */
import type { Deadline } from '../../../../core/clock.ts';
import type { RestartCause } from '../../../../core/readings.ts';
import type { WireItem } from '../../../../wire/frames/frames.ts';
import type { SupervisedWorker } from './supervised-worker.ts';

export type ReplacementCause = Extract<RestartCause, 'recycled' | 'asked'>;

export type Role =
  | { readonly tag: 'serving' | 'retired' }
  | { readonly tag: 'replacement'; readonly cause: ReplacementCause };

export class Roster<T extends WireItem> {
  readonly #create: (index: number) => SupervisedWorker<T>;
  readonly #roles: Map<SupervisedWorker<T>, Role> = new Map();
  readonly #serving: SupervisedWorker<T>[] = [];
  /** The workers that serve, by index. */
  readonly serving: readonly SupervisedWorker<T>[] = this.#serving;
  /** Indexes whose worker will be replaced after the present replacement, and why. */
  readonly #due: Map<number, ReplacementCause> = new Map();

  /** @param create makes a worker, which the roster starts if it is a replacement */
  constructor(size: number, create: (index: number) => SupervisedWorker<T>) {
    this.#create = create;
    this.resize(size);
  }

  /** All workers, also those that are about to serve or to end. */
  get all(): readonly SupervisedWorker<T>[] {
    return [...this.#roles.keys()];
  }

  /** Workers that only finish their batches. */
  get retired(): readonly SupervisedWorker<T>[] {
    return this.all.filter((worker) => this.#roles.get(worker)?.tag === 'retired');
  }

  /** Whether a worker that serves, or its replacement, does not start until something changes. */
  get isStuck(): boolean {
    return this.all.some(({ process }) => process.isStuck);
  }

  serves(worker: SupervisedWorker<T>): boolean {
    return this.#serving[worker.index] === worker;
  }

  /** Returns the problem of a worker that serves, or otherwise of its replacement, as text, or null. */
  troubleOf(worker: SupervisedWorker<T>): string | null {
    const { lastError } = worker.process;
    if (lastError) return lastError.message;
    const { replacement } = this;
    const cause = replacement?.worker.index === worker.index ? replacement.worker.process.lastError : null;
    return cause ? `its replacement does not start: ${cause.message}` : null;
  }

  /** Has this many workers serve, and returns those that are new. The others finish their batches and end. */
  resize(size: number): readonly SupervisedWorker<T>[] {
    while (this.#serving.length > size) {
      const { length } = this.#serving;
      const { replacement } = this;
      if (replacement?.worker.index === length - 1) this.#retire(replacement.worker);
      this.#due.delete(length - 1);
      this.#retire(this.#serving.pop() as SupervisedWorker<T>);
    }
    const from = this.#serving.length;
    for (let index = from; index < size; index += 1) this.#assign(this.#create(index), { tag: 'serving' });
    this.#startNext();
    return this.#serving.slice(from);
  }

  /** Requests a replacement; returns false if the worker at the index will be replaced anyway. */
  replace(index: number, cause: ReplacementCause): boolean {
    // A user who asks while a replacement starts may have changed the code after that one loaded it.
    if (cause === 'recycled' && (this.#due.has(index) || this.replacement?.worker.index === index)) return false;
    this.#due.set(index, cause);
    this.#startNext();
    return true;
  }

  /** Lets a replacement that is ready take over; returns why it replaces the worker, or null for any other worker. */
  becameReady(worker: SupervisedWorker<T>): ReplacementCause | null {
    const role = this.#roles.get(worker);
    if (role?.tag !== 'replacement') return null;
    const old = this.#serving[worker.index];
    this.#assign(worker, { tag: 'serving' });
    if (old) this.#retire(old);
    this.#startNext();
    return role.cause;
  }

  /** Notes that a serving worker's process died. The next one is new, so a replacement for wear is no longer due. */
  died({ index }: SupervisedWorker<T>): void {
    if (this.#due.get(index) === 'recycled') this.#due.delete(index);
  }

  /** Drops all requests for replacements, and ends the replacement that has started. */
  keepPresent(): void {
    this.#due.clear();
    const { replacement } = this;
    if (replacement) this.#retire(replacement.worker);
  }

  /** Lets all workers finish their batches, and kills them at the deadline. Resolves when all have ended. */
  async close(deadline: Deadline): Promise<void> {
    this.keepPresent();
    await Promise.all(this.all.map((worker) => worker.close(deadline)));
  }

  get replacement(): { readonly worker: SupervisedWorker<T>; readonly cause: ReplacementCause } | null {
    for (const [worker, role] of this.#roles) if (role.tag === 'replacement') return { worker, cause: role.cause };
    return null;
  }

  #startNext(): void {
    const [first] = this.#due;
    if (!first || this.replacement) return;
    const [index, cause] = first;
    this.#due.delete(index);
    const worker = this.#create(index);
    this.#assign(worker, { tag: 'replacement', cause });
    worker.process.start();
  }

  #retire(worker: SupervisedWorker<T>): void {
    this.#assign(worker, { tag: 'retired' });
    void worker.close(Number.POSITIVE_INFINITY).then(() => this.#roles.delete(worker));
  }

  /** The only place where a role is set. */
  #assign(worker: SupervisedWorker<T>, role: Role): void {
    this.#roles.set(worker, role);
    if (role.tag === 'serving') this.#serving[worker.index] = worker;
  }
}
