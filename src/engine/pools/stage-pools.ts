/**
 * The generations of one stage's workers. A changed modelet, or a saved file of one that is watched, gets a new pool
 * beside the present one, which serves until the new one is ready, and then finishes what it holds. A new pool that
 * does not start changes nothing. Workers that cannot start are tried again when their file is another, at a deploy, or
 * when somebody asks for new ones.
 */
import type { Deadline } from '../../core/clock.ts';
import type { CircuitStatus, RequestNumber, StageDefinition, StageStatus } from '../../core/model.ts';
import type { Item } from '../stage/item.ts';
import { HotEdit, type HotEditHost, Repair } from './hot-edit.ts';
import type { CheckResult, WorkerPool } from './pool.ts';

export type StagePool = WorkerPool<Item> & { readonly pinWarnings: readonly string[] };

type PoolsStatus = CircuitStatus &
  Pick<StageStatus, 'busy' | 'ready' | 'workers' | 'pinWarnings' | 'doesNotStart' | 'successorError'>;

interface Generation {
  /** Of the definition, and of what was saved in its file since. */
  readonly revision: string;
  readonly pool: StagePool;
}

export class StagePools {
  readonly #create: (definition: StageDefinition) => StagePool;
  readonly #edits: HotEdit;
  readonly #repair: Repair;
  readonly #onRenewed: () => void;
  #definition: StageDefinition;
  /** How often the modelet's file has been saved. */
  #saves = 0;
  #present: Generation;
  #successor: Generation | null = null;
  readonly #retired: Set<StagePool> = new Set();
  #isClosed = false;

  /** `onRenewed` is told when the stage is to run something else from now on, or to load the same anew. */
  constructor(
    definition: StageDefinition,
    create: (definition: StageDefinition) => StagePool,
    host: HotEditHost,
    onRenewed: () => void,
  ) {
    this.#create = create;
    this.#onRenewed = onRenewed;
    this.#definition = definition;
    this.#repair = new Repair(host, () => this.#retry());
    this.#present = this.#generation();
    this.#edits = new HotEdit(host, () => {
      this.#saves += 1;
      this.#renew();
    });
  }

  start(): void {
    this.#edits.follow(this.#definition);
    this.present.start();
  }

  /** The pool that takes batches. */
  get present(): StagePool {
    return this.#present.pool;
  }

  /** Whether the worker that takes batches there runs what the stage is to run now, and not what was before. */
  isCurrent(worker: number): boolean {
    return this.#successor === null && this.present.isCurrent(worker);
  }

  status(): PoolsStatus {
    const pool = this.present;
    const workers = pool.status();
    const { health } = pool;
    return {
      doesNotStart: health.tag === 'failed' && health.doesNotStart,
      busy: workers.filter((worker) => worker.busy).length,
      ready: workers.filter((worker) => worker.state === 'ready').length,
      workers,
      pinWarnings: pool.pinWarnings,
      ...pool.circuit,
      successorError: this.#successorError(),
    };
  }

  /** Tells all pools what has changed outside the modelet; starts a successor if the modelet is another. */
  redefine(definition: StageDefinition): void {
    this.#definition = definition;
    for (const pool of this.#all()) pool.redefine(definition);
    this.#edits.follow(definition);
    this.#renew();
    // Whoever deploys may have mended what this process cannot see.
    this.#retry();
  }

  /** Gives the stage new workers. Those of old code only finish what they hold. */
  restart(): void {
    this.#onRenewed();
    this.#repair.trying(this.#definition);
    this.present.restart();
    this.#successor?.pool.restart();
  }

  /** To be called when a pool's health may have changed: puts a successor in place once it is ready. */
  advance(): void {
    this.#repair.follow(this.#definition, this.#isStuck);
    const successor = this.#successor;
    // One that runs but does not serve has nothing to lose either.
    if (!successor || (successor.pool.health.tag !== 'ready' && this.present.health.tag !== 'failed')) return;
    this.#retire(this.present);
    this.#present = successor;
    this.#successor = null;
  }

  /** Runs the examples of the code that serves; those of newer code where that takes over meanwhile. */
  async check(deadline: Deadline): Promise<CheckResult> {
    const { present } = this;
    const result = await present.check(deadline);
    return result.error && present !== this.present ? this.check(deadline) : result;
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const pool of [this.present, ...this.#retired]) pool.cancel(ids);
  }

  async close(deadline: Deadline): Promise<void> {
    const pools = this.#all();
    this.#edits.stop();
    this.#repair.stop();
    this.#isClosed = true;
    this.#successor = null;
    await Promise.all(pools.map((pool) => pool.close(deadline)));
  }

  get #isStuck(): boolean {
    return !this.#isClosed && (this.present.isStuck || this.#successor?.pool.isStuck === true);
  }

  /** Starts the workers that do not start once more. */
  #retry(): void {
    if (!this.#isStuck) return;
    this.#repair.trying(this.#definition);
    this.present.retry();
    this.#successor?.pool.retry();
  }

  #successorError(): string | null {
    const pool = this.#successor?.pool;
    if (pool?.health.tag !== 'failed') return null;
    // What a worker died of says more than that too many died.
    return pool.status().find(({ error }) => error !== null)?.error ?? pool.health.error.message;
  }

  #all(): StagePool[] {
    return [this.present, ...this.#retired, ...(this.#successor ? [this.#successor.pool] : [])];
  }

  /** Starts a successor if the newest generation is not of the present revision. */
  #renew(): void {
    const newest = this.#successor ?? this.#present;
    if (newest.revision === this.#revision) return;
    this.#onRenewed();
    if (this.#successor) this.#retire(this.#successor.pool);
    // Going back to what still runs needs no new workers.
    this.#successor = this.#revision === this.#present.revision ? null : this.#generation();
    this.#successor?.pool.start();
  }

  get #revision(): string {
    return `${this.#definition.revision} saved ${this.#saves}`;
  }

  #generation(): Generation {
    this.#repair.trying(this.#definition);
    return { revision: this.#revision, pool: this.#create(this.#definition) };
  }

  #retire(pool: StagePool): void {
    this.#retired.add(pool);
    // Old code answers what it holds, for as long as the stage lets a batch run.
    void pool.close(Number.POSITIVE_INFINITY).then(() => this.#retired.delete(pool));
  }
}
