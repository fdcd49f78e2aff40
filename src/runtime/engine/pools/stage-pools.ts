/**
 * The generations of one stage's workers. A changed modelet, or a save of a watched modelet file, gets a new pool. The
 * present pool serves until the new one is ready, and then finishes its batches. A new pool that does not start
 * changes nothing. Workers that cannot start are tried again when their file changes, at a deploy, or when a user asks
 * for new ones.
 *
 * The workers of one pool also serve, replace others or are retired (roster.ts), but by other rules. A pool replaces a
 * worker by one with the same code, alone, as soon as its process is ready, and the pool's circuit ends the
 * replacement. A pool succeeds as a whole: when its health says so, or when the present pool has failed; a newer revision
 * retires a successor, and a return to the old revision cancels it. Pools know nothing of revisions.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Deadline } from '../../../core/clock.ts';
import type { CheckResult, CircuitStatus, RequestNumber, RetiredWorker, StageStatus } from '../../../core/model.ts';
import type { Item } from '../stage/item.ts';
import { HotEdit, type HotEditHost } from './hot-edit.ts';
import type { FreeWorker, WorkerPool } from './pool.ts';

export type StagePool = WorkerPool<Item> & { readonly pinWarnings: readonly string[] };

type PoolsStatus = CircuitStatus &
  Pick<
    StageStatus,
    | 'revision'
    | 'busy'
    | 'ready'
    | 'workers'
    | 'pinWarnings'
    | 'doesNotStart'
    | 'successorError'
    | 'runsSince'
    | 'retired'
    | 'lastDeath'
    | 'scaling'
  >;

interface PoolGeneration {
  /** Combines the definition's revision with the number of saves of its file, and with how hosts are reached. */
  readonly revision: string;
  readonly pool: StagePool;
}

export class StagePools {
  readonly #create: (definition: StageDefinition) => StagePool;
  readonly #edits: HotEdit;
  readonly #onRenewed: () => void;
  #definition: StageDefinition;
  /** Number of times the modelet's file has been saved. */
  #saves = 0;
  /** The pool that takes batches. A field, because the stage reads it for every batch. Written here only. */
  present: StagePool;
  #presentRevision: string;
  #successor: PoolGeneration | null = null;
  readonly #retired: Set<StagePool> = new Set();
  #isClosed = false;

  /** @param onRenewed called when the stage switches to another modelet or reloads the present one */
  constructor(
    definition: StageDefinition,
    create: (definition: StageDefinition) => StagePool,
    host: HotEditHost,
    onRenewed: () => void,
  ) {
    this.#create = create;
    this.#onRenewed = onRenewed;
    this.#definition = definition;
    const onSaved = (): void => {
      this.#saves += 1;
      this.#renew();
    };
    this.#edits = new HotEdit(host, onSaved, () => this.#retry());
    const { revision, pool } = this.#generation();
    this.present = pool;
    this.#presentRevision = revision;
  }

  start(): void {
    this.#follow();
    this.present.start();
  }

  /** Whether the worker in the present pool runs the stage's current modelet, not an older one. */
  isCurrent(worker: FreeWorker<Item>): boolean {
    return this.#successor === null && worker.isCurrent;
  }

  /** Number of workers that serve. */
  get ready(): number {
    return this.present.status().filter(({ state }) => state === 'ready').length;
  }

  status(): PoolsStatus {
    const pool = this.present;
    const workers = pool.status();
    const { health, lastDeath = null, scaling } = pool;
    const since = pool.runs?.serving.map(({ runsSince }) => runsSince) ?? [];
    return {
      revision: this.#presentRevision === this.#revision ? this.#definition.revision : null,
      doesNotStart: health.tag === 'failed' && health.doesNotStart,
      busy: workers.reduce((sum, { running }) => sum + running, 0),
      ready: workers.filter((worker) => worker.state === 'ready').length,
      workers,
      pinWarnings: pool.pinWarnings,
      ...pool.circuit,
      successorError: this.#successorError(),
      runsSince: since.length > 0 ? Math.min(...since) : null,
      retired: this.#oldRuns(),
      lastDeath,
      ...(scaling ? { scaling } : {}),
    };
  }

  /** Passes settings outside the modelet to all pools; starts a successor if the modelet has changed. */
  redefine(definition: StageDefinition): void {
    this.#definition = definition;
    for (const pool of this.#all()) pool.redefine(definition);
    this.#follow();
    this.#renew();
    // The user may have fixed a cause that this process cannot see, such as a missing package.
    this.#retry();
  }

  /** Gives the stage new workers. Old workers only finish their batches. */
  restart(): void {
    this.#onRenewed();
    this.#edits.trying(this.#definition);
    this.present.restart();
    this.#successor?.pool.restart();
  }

  /** Puts a successor in place once it is ready. Call when a pool's health may have changed. */
  advance(): void {
    if (this.#isClosed) return;
    this.#follow();
    const successor = this.#successor;
    // A present pool that has failed serves nothing, so any successor may replace it.
    if (!successor || (successor.pool.health.tag !== 'ready' && this.present.health.tag !== 'failed')) return;
    this.#retire(this.present);
    this.present = successor.pool;
    this.#presentRevision = successor.revision;
    this.#successor = null;
  }

  /** Runs the examples of the code that serves. If the check fails and a new pool has taken over, checks that one. */
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
    this.#isClosed = true;
    this.#successor = null;
    await Promise.all(pools.map((pool) => pool.close(deadline)));
  }

  get #isStuck(): boolean {
    return !this.#isClosed && (this.present.isStuck || this.#successor?.pool.isStuck === true);
  }

  #follow(): void {
    const pools = this.#successor ? [this.#successor.pool, this.present] : [this.present];
    this.#edits.follow(
      this.#definition,
      this.#isStuck,
      pools.flatMap(({ files }) => files),
    );
  }

  /** Tries again to start the workers that are stuck. */
  #retry(): void {
    if (!this.#isStuck) return;
    this.#edits.trying(this.#definition);
    this.present.retry();
    this.#successor?.pool.retry();
  }

  #successorError(): string | null {
    const pool = this.#successor?.pool;
    if (pool?.health.tag !== 'failed') return null;
    // A worker's own error says more than the circuit's count of deaths.
    return pool.status().find(({ error }) => error !== null)?.error ?? pool.health.error.message;
  }

  /** The old workers that still run batches: those of old pools, and those that the present pool has replaced. */
  #oldRuns(): RetiredWorker[] {
    const old = [...this.#retired].flatMap(({ runs }) => (runs ? [...runs.serving, ...runs.retired] : []));
    return [...old, ...(this.present.runs?.retired ?? [])];
  }

  #all(): StagePool[] {
    return [this.present, ...this.#retired, ...(this.#successor ? [this.#successor.pool] : [])];
  }

  /** Starts a successor if the newest generation does not have the current revision. */
  #renew(): void {
    if ((this.#successor?.revision ?? this.#presentRevision) === this.#revision) return;
    this.#onRenewed();
    if (this.#successor) this.#retire(this.#successor.pool);
    // A return to the revision that still runs needs no new workers.
    this.#successor = this.#revision === this.#presentRevision ? null : this.#generation();
    this.#successor?.pool.start();
  }

  get #revision(): string {
    const { revision, remote } = this.#definition;
    // Another password or certificate needs new connections, over which the hosts' workers stay the same.
    return `${revision} saved ${this.#saves} ${JSON.stringify(remote)}`;
  }

  #generation(): PoolGeneration {
    this.#edits.trying(this.#definition);
    return { revision: this.#revision, pool: this.#create(this.#definition) };
  }

  #retire(pool: StagePool): void {
    this.#retired.add(pool);
    // Old workers finish their batches; only the stage's run limit bounds them.
    void pool.close(Number.POSITIVE_INFINITY).then(() => this.#retired.delete(pool));
  }
}
