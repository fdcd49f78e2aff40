/**
 * The queue between the engine of a remote stage and its worker hosts: BullMQ on Redis or Valkey, one job for each batch.
 * Unlike the queue of a gate it counts nothing and tries nothing again: a batch is taken once, and ends with its result, or
 * as lost when the lease of its host ends. So each step is one command, and two more for bytes that travel beside the job.
 *
 * Outcomes stay for `KEPT_S`, for an engine that has missed the event of one.
 */
import type { JobsOptions } from 'bullmq';
import type { BrokerAccess, BrokerLink, JobLeases } from '../broker/broker-link.ts';
import {
  asMinimal,
  type FoundJob,
  fetchJobs,
  isFenced,
  itemIdOf,
  itemOf,
  jobIdOf,
  jobOf,
  keptOutcome,
  outcomeOfJob,
  readJobs,
} from '../broker/jobs.ts';
import type { Payload } from '../core/model.ts';
import { BatchValues, LARGEST_INLINE } from './batch-values.ts';

/** How BullMQ leases the jobs of such a queue, for the link. A host that dies is missed when its leases end. */
export const BATCH_LEASES: JobLeases = { leaseMs: 10_000, mostLost: 0 };

export interface TakenBatch {
  readonly id: string;
  readonly payload: Payload;
}

/** `open`: it waits or runs. `unknown`: the server has lost it, or it ended long ago. */
export type BatchState =
  | { readonly tag: 'open' | 'unknown' }
  | { readonly tag: 'ended'; readonly result: Payload | null; readonly reason: string | null }
  | { readonly tag: 'lost'; readonly reason: string };

const KEPT_S = 15;
const KEPT = { age: KEPT_S, count: 1000 } as const;
/** The lists of batches that have ended, and all keys of a queue without others. `stalled-check` ends by itself, and soon. */
const ENDED = ['completed', 'failed'] as const;
const LEFT = ['meta', 'events', 'id', 'pc', ...ENDED, 'marker'] as const;
export const LEFT_MS = 3_600_000;
const OPTIONS: JobsOptions = { removeOnFail: KEPT };

export class BatchQueue {
  readonly #link: BrokerLink;
  /** Names the host that takes batches by this object. */
  readonly #holder: string;
  readonly #values: BatchValues;
  /** Batches that this object has taken and not ended. */
  readonly #taken: Set<string> = new Set();
  /** Whether a claim has failed, which the server may have carried out. */
  #isUnsure = false;

  /** @param largestInline number of bytes that travel inside a job */
  constructor(link: BrokerLink, holder: string, largestInline: number = LARGEST_INLINE) {
    this.#link = link;
    this.#holder = holder;
    this.#values = new BatchValues(link, largestInline);
  }

  /** @param id no other batch has it */
  async add(id: string, payload: Payload, priority: number): Promise<void> {
    const { held, write } = this.#values.put('batch', id, payload);
    const { name, data, opts } = jobOf({ id, payload: held, priority, deadline: null });
    await this.#link.reach((reached) =>
      Promise.all([write(reached), reached.queue.add(name, data, { ...opts, ...OPTIONS })]),
    );
  }

  /** Takes up to so many of the first batches. A job that is no batch ends here. */
  async take(most: number): Promise<TakenBatch[]> {
    const found = await this.#link.reach((reached) => this.#claim(reached, most));
    const read = found.map(async ({ id: jobId, job }): Promise<TakenBatch[]> => {
      const id = itemIdOf(jobId);
      this.#taken.add(id);
      try {
        return [{ id, payload: await this.#values.get('batch', id, itemOf(job).payload) }];
      } catch (thrown) {
        await this.refuse(id, (thrown as Error).message);
        return [];
      }
    });
    return (await Promise.all(read)).flat();
  }

  async #claim(reached: BrokerAccess, most: number): Promise<FoundJob[]> {
    const before = this.#isUnsure ? await this.#unanswered(reached) : [];
    this.#isUnsure = true;
    const next = await fetchJobs(reached, most - before.length, this.#holder);
    this.#isUnsure = false;
    return [...before, ...next];
  }

  /** Returns the batches that the server has handed out for claims whose answers were lost. */
  async #unanswered(reached: BrokerAccess): Promise<FoundJob[]> {
    const { server, queue } = reached;
    const active = await server.lRange(queue.toKey('active'), 0, -1);
    const unknown = active.filter((id) => !this.#taken.has(itemIdOf(id)));
    if (unknown.length === 0) return [];
    const locks = await server.mGet(unknown.map((id) => queue.toKey(`${id}:lock`)));
    return readJobs(
      reached,
      unknown.filter((_, index) => locks[index] === this.#holder),
    );
  }

  /** Resolves to false for each batch whose lease has ended. */
  extend(ids: readonly string[]): Promise<boolean[]> {
    return this.#link.reach(({ backend }) =>
      Promise.all(
        ids.map(async (id) => {
          return Number(await backend.extendLock(jobIdOf(id), this.#holder, BATCH_LEASES.leaseMs)) === 1;
        }),
      ),
    );
  }

  /** Ends a batch with its result. No effect if its lease has ended. */
  async complete(id: string, result: Payload): Promise<void> {
    const { held, write } = this.#values.put('result', id, result);
    const outcome = keptOutcome({ ok: true, result: held, reason: null }, this.#holder);
    await this.#link.reach((reached) => {
      const written = write(reached);
      const ended = reached.backend.moveToCompleted(asMinimal(jobIdOf(id)), outcome, KEPT, this.#holder, false);
      return Promise.all([written, ended.catch(unlessFenced)]);
    });
    this.#taken.delete(id);
  }

  /** Returns the whole result of a batch. @throws ModeletError if it is gone */
  resultOf(id: string, held: Payload): Promise<Payload> {
    return this.#values.get('result', id, held);
  }

  /** Deletes what is kept of a batch beside its job. */
  settled(id: string): void {
    this.#values.drop(id);
  }

  /** Ends a batch that cannot be run. */
  async refuse(id: string, reason: string): Promise<void> {
    await this.#link.reach(async ({ backend }) => {
      await backend.moveToFailed(asMinimal(jobIdOf(id)), reason, KEPT, this.#holder, false).catch(unlessFenced);
    });
    this.#taken.delete(id);
  }

  /** Ends the batches whose hosts are gone, and keeps the bytes of those that have not settled. */
  async endLeases(): Promise<void> {
    await this.#link.reach(({ backend }) => backend.moveStalledJobsToWait());
    await this.#values.renew();
  }

  /** Takes back a batch that no host has claimed, in one step. Returns false if it was claimed, or has ended. */
  takeBack(id: string): Promise<boolean> {
    return this.#link.reach(async ({ server, queue }) => {
      const jobId = jobIdOf(id);
      if ((await server.zRem(queue.toKey('prioritized'), jobId)) === 0) return false;
      await server.unlink(queue.toKey(jobId));
      return true;
    });
  }

  lookUp(id: string): Promise<BatchState> {
    return this.#link.reach(async (reached): Promise<BatchState> => {
      const [found] = await readJobs(reached, [jobIdOf(id)]);
      if (!found) return { tag: 'unknown' };
      const state = await reached.backend.getState(found.id);
      if (state === 'failed') return { tag: 'lost', reason: found.job.failedReason ?? '' };
      // Taken back, by a call whose answer was lost.
      if (state === 'unknown') return { tag: 'unknown' };
      if (state !== 'completed') return { tag: 'open' };
      const { result, reason } = outcomeOfJob(found.job.returnvalue);
      return { tag: 'ended', result, reason };
    });
  }

  /** Lets the server forget the queue, which its stage or its host uses no more, unless another runtime keeps it. */
  async expire(): Promise<void> {
    await this.#link.reach(async ({ server, queue }) => {
      const ended = await Promise.all(ENDED.map((name) => server.zRange(queue.toKey(name), 0, -1)));
      await Promise.all([...LEFT, ...ended.flat()].map((name) => server.pExpire(queue.toKey(name), LEFT_MS)));
    });
  }

  /** Lets the server keep the queue, which is in use. Call more often than `LEFT_MS`. */
  async keep(): Promise<void> {
    await this.#link.reach(({ server, queue }) => Promise.all(LEFT.map((name) => server.persist(queue.toKey(name)))));
  }

  close(): Promise<void> {
    return this.#link.close();
  }
}

/** A call that was repeated, or came too late, changes nothing. */
function unlessFenced(thrown: unknown): void {
  if (!isFenced(thrown)) throw thrown;
}
