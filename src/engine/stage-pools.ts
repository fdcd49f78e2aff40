/**
 * The generations of one stage's workers. A changed modelet gets a new pool beside the present one, which serves
 * until the new one is ready, and then finishes what it holds. A new pool that does not start changes nothing.
 */
import type { Deadline } from '../core/clock.ts';
import type { RequestNumber, StageDefinition } from '../core/model.ts';
import type { CheckResult, WorkerPool } from '../worker/pool.ts';
import type { Item } from './item.ts';

export type StagePool = WorkerPool<Item> & { readonly pinWarnings: readonly string[] };

interface Generation {
  readonly revision: string;
  readonly pool: StagePool;
}

export class StagePools {
  readonly #create: (definition: StageDefinition) => StagePool;
  #present: Generation;
  #successor: Generation | null = null;
  readonly #retired: Set<StagePool> = new Set();

  constructor(definition: StageDefinition, create: (definition: StageDefinition) => StagePool) {
    this.#create = create;
    this.#present = this.#generation(definition);
  }

  start(): void {
    this.present.start();
  }

  /** The pool that takes batches. */
  get present(): StagePool {
    return this.#present.pool;
  }

  /** Why the newest code does not run, while older code serves; null if there is no such trouble. */
  get successorError(): Error | null {
    const health = this.#successor?.pool.health;
    return health?.tag === 'failed' ? health.error : null;
  }

  /** Tells all pools what has changed outside the modelet; starts a successor if the definition's modelet is another than the newest generation's. */
  redefine(definition: StageDefinition): void {
    for (const pool of this.#all()) pool.redefine(definition);
    const newest = this.#successor ?? this.#present;
    if (newest.revision === definition.revision) return;
    if (this.#successor) this.#retire(this.#successor.pool);
    // Going back to what still runs needs no new workers.
    this.#successor = definition.revision === this.#present.revision ? null : this.#generation(definition);
    this.#successor?.pool.start();
  }

  /** Gives the stage new workers. Those of old code only finish what they hold. */
  restart(): void {
    this.present.restart();
    this.#successor?.pool.restart();
  }

  /** To be called when a pool's health may have changed: puts a successor in place once it is ready. */
  advance(): void {
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
    this.#successor = null;
    await Promise.all(pools.map((pool) => pool.close(deadline)));
  }

  #all(): StagePool[] {
    return [this.present, ...this.#retired, ...(this.#successor ? [this.#successor.pool] : [])];
  }

  #generation(definition: StageDefinition): Generation {
    return { revision: definition.revision, pool: this.#create(definition) };
  }

  #retire(pool: StagePool): void {
    this.#retired.add(pool);
    // Old code answers what it holds, for as long as the stage lets a batch run.
    void pool.close(Number.POSITIVE_INFINITY).then(() => this.#retired.delete(pool));
  }
}
