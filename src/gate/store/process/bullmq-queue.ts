/**
 * The queue of several Node-REDs: BullMQ on Redis or Valkey. All changes of an item's state are BullMQ's own scripts,
 * which check the token of the claim; beside them the queue keeps one sorted set, of the deadlines of waiting items.
 *
 *   item       job, waiting by priority; `wait`, which BullMQ empties first, holds what must run alone
 *   claim      job in `active`, with a lock of the claim's token that the server itself ends
 *   outcome    job in `completed`, removed when its time is over
 *   dead       job in `failed`
 *
 * It departs from the contract of work-queue.ts in these points:
 * - Items of one priority are claimed first in first out, whatever their deadlines; an item that is given back may overtake
 *   older ones, and a failed item comes after them.
 * - An item claimed alone is alone among the claims of its session. Other Node-REDs go on.
 * - An ended lease is found up to `2 * LEASE_CHECK_MS` late, and counts an attempt however it ended.
 * - Delays end by the time of day. The capacity may be exceeded by what other Node-REDs store in the same moment.
 */
import type { BrokerAccess, BrokerLink, JobLeases } from '../../../broker/broker-link.ts';
import {
  asMinimal,
  deadlineOf,
  type FoundJob,
  fetchJobs,
  isFenced,
  itemIdOf,
  jobIdOf,
  jobOf,
  keptOutcome,
  outcomeOfJob,
  readJobs,
} from '../../../broker/jobs.ts';
import { wallTime } from '../../../core/clock.ts';
import { asModeletError } from '../../../core/errors.ts';
import {
  type Ack,
  type Cancelled,
  type Claim,
  type ClaimOptions,
  checkItems,
  type Enqueued,
  type HeldClaim,
  type ItemResult,
  isItemId,
  type Nacked,
  type NackOptions,
  type QueueItem,
  type QueueLimits,
  type QueueStats,
  type WorkQueue,
} from '../work-queue.ts';
import {
  ALONE,
  addDeadlines,
  attemptsOf,
  claimOf,
  deadlinesOf,
  fail,
  giveBack,
  mustRunAlone,
  readStats,
  settledBefore,
  WAITING,
  waitingIn,
} from './bullmq-commands.ts';

/** Lease with which BullMQ hands out a job, in ms; a claim with another lease extends it at once. */
const LOCK_MS = 30_000;
/** The limit of attempts is the gate's, which counts ended leases too. */
export const GATE_LEASES: JobLeases = { leaseMs: LOCK_MS, mostLost: Number.MAX_SAFE_INTEGER };
/** Most expired outcomes that each `enqueue` deletes. */
const FORGOTTEN_AT_ONCE = 1000;
const MOST_UNANSWERED = 1000;

export class BullmqQueue implements WorkQueue {
  readonly #link: BrokerLink;
  readonly #session: string;
  #limits: QueueLimits;
  /** Locks of claims that failed: the server may have carried them out, or do so later, but no client works on them. */
  readonly #unanswered: Set<string> = new Set();

  constructor(link: BrokerLink, session: string, limits: QueueLimits) {
    this.#link = link;
    this.#session = session;
    this.#limits = limits;
  }

  async enqueue(items: readonly QueueItem[]): Promise<Enqueued[]> {
    checkItems(items);
    return this.#link.reach(async (reached) => {
      const { server, queue, backend } = reached;
      await backend.cleanJobsByState('completed', wallTime() - this.#limits.resultTtlMs, FORGOTTEN_AT_ONCE);
      const known = await Promise.all(items.map(({ id }) => server.exists(queue.toKey(jobIdOf(id)))));
      const taken = new Set(items.filter((_, index) => known[index] === 1).map(({ id }) => id));
      let room = this.#limits.capacity - (await waitingIn(reached));
      const stored: QueueItem[] = [];
      const answers = items.map((item): Enqueued => {
        if (taken.has(item.id)) return 'duplicate';
        if (room <= 0) return 'full';
        room -= 1;
        taken.add(item.id);
        stored.push(item);
        return 'new';
      });
      // Before the items: a deadline without its item is removed when it passes.
      await addDeadlines(reached, stored);
      // Not addBulk: its transaction fails on a server that was restarted and lacks the scripts.
      await Promise.all(stored.map(jobOf).map(({ name, data, opts }) => queue.add(name, data, opts)));
      return answers;
    });
  }

  claim(options: ClaimOptions): Promise<Claim[]> {
    const lock = this.#lockOf(options.token);
    return this.#link
      .reach((reached) => this.#claim(reached, lock, options))
      .catch((thrown: unknown) => {
        this.#unanswered.add(lock);
        const [oldest] = this.#unanswered;
        if (oldest !== undefined && this.#unanswered.size > MOST_UNANSWERED) this.#unanswered.delete(oldest);
        throw thrown;
      });
  }

  async #claim(reached: BrokerAccess, lock: string, options: ClaimOptions): Promise<Claim[]> {
    const { max, leaseMs, token, expired = false } = options;
    const held = await this.#claimedBefore(reached);
    const before = held.filter((each) => each.lock === lock).map(({ id }) => id);
    if (before.length > 0) return toClaims(await readJobs(reached, before), token);
    if (max < 1) return [];
    if (expired) return toClaims(await this.#claimExpired(reached, max, lock, leaseMs), token);
    const [only, ...others] = held;
    if (only && others.length === 0 && (await readJobs(reached, [only.id])).some(({ job }) => mustRunAlone(job)))
      return [];
    return toClaims(await this.#claimDue(reached, { max, lock, leaseMs, mayBeAlone: held.length === 0 }), token);
  }

  extend(held: readonly HeldClaim[], leaseMs: number): Promise<boolean[]> {
    return this.#link.reach(async ({ server, backend }) => {
      // An idle store shall notice a server that is away, too.
      if (held.length === 0) await server.ping();
      return Promise.all(
        held.map(async ({ id, token }) => {
          return Number(await backend.extendLock(jobIdOf(id), this.#lockOf(token), leaseMs)) === 1;
        }),
      );
    });
  }

  ack(acks: readonly Ack[]): Promise<boolean[]> {
    return this.#link.reach((reached) => Promise.all(acks.map((ack) => this.#complete(reached, ack, null))));
  }

  nack(held: readonly HeldClaim[], options: NackOptions): Promise<Nacked[]> {
    return this.#link.reach(async (reached) => {
      const nacked: Nacked[] = [];
      // One by one, last first: each that goes back to its place goes before those that wait there.
      for (const claim of [...held].reverse()) nacked.unshift(await this.#nackOne(reached, claim, options));
      return nacked;
    });
  }

  deadLetter(held: readonly HeldClaim[], reason: string): Promise<boolean[]> {
    return this.#link.reach((reached) => Promise.all(held.map((claim) => this.#bury(reached, claim, reason))));
  }

  redrive(ids: readonly string[] | null): Promise<number> {
    return this.#link.reach(async (reached) => {
      const { server, queue, backend } = reached;
      const dead = ids ? ids.filter(isItemId).map(jobIdOf) : await server.zRange(queue.toKey('failed'), 0, -1);
      let driven = 0;
      for (const { id, job } of await readJobs(reached, dead)) {
        if ((await backend.getState(id)) !== 'failed') continue;
        await server.hSet(queue.toKey(id), { stc: '0', progress: mustRunAlone(job) ? ALONE : 0 });
        await backend.retryFinishedJob(asMinimal(id), 'failed', { resetAttemptsMade: true });
        await addDeadlines(reached, [{ id: itemIdOf(id), deadline: deadlineOf(job) }]);
        driven += 1;
      }
      return driven;
    });
  }

  async cancel(id: string): Promise<Cancelled> {
    if (!isItemId(id)) return 'unknown';
    return this.#link.reach(async (reached) => {
      const jobId = jobIdOf(id);
      const state = await reached.backend.getState(jobId);
      if (state === 'active') return 'running';
      if (state === 'failed') await reached.backend.retryFinishedJob(asMinimal(jobId), 'failed');
      else if (!WAITING.has(state)) return 'unknown';
      const token = `cancel-${id}`;
      const [taken] = await this.#take(reached, [jobId], this.#lockOf(token));
      if (!taken) return 'running';
      await this.#complete(reached, { id, token, ok: false, result: null }, 'cancelled');
      return 'cancelled';
    });
  }

  async result(id: string): Promise<ItemResult | null> {
    if (!isItemId(id)) return null;
    return this.#link.reach(async (reached) => {
      const [found] = await readJobs(reached, [jobIdOf(id)]);
      if (!found) return null;
      const state = await reached.backend.getState(found.id);
      const { job } = found;
      const [attempts, reason] = [attemptsOf(job), job.failedReason ?? null];
      if (state === 'active') return { state: 'running', result: null, attempts, reason };
      if (state === 'failed') return { state: 'dead', result: null, attempts, reason };
      if (state !== 'completed') return { state: 'pending', result: null, attempts, reason };
      if (Number(job.finishedOn) + this.#limits.resultTtlMs <= wallTime()) return null;
      const outcome = outcomeOfJob(job.returnvalue);
      return { state: outcome.ok ? 'done' : 'failed', result: outcome.result, attempts, reason: outcome.reason };
    });
  }

  stats(): Promise<QueueStats> {
    return this.#link.reach(async (reached) => {
      await this.#endLeases(reached);
      return readStats(reached);
    });
  }

  async configure(limits: QueueLimits): Promise<void> {
    this.#limits = limits;
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  /** Tells the claims of this session from those of other Node-REDs. */
  #lockOf(token: string): string {
    return `${this.#session}/${token}`;
  }

  /** Returns the jobs that this session works on. Gives back what it got by a claim that failed. */
  async #claimedBefore(reached: BrokerAccess): Promise<{ readonly id: string; readonly lock: string }[]> {
    const held = await this.#held(reached);
    const lost = held.filter(({ lock }) => this.#unanswered.has(lock));
    for (const each of lost.toReversed()) await giveBack(reached, [each], each.lock);
    return held.filter((each) => !lost.includes(each));
  }

  /** Returns the jobs that this session holds, in the order in which it got them. */
  async #held({ server, queue }: BrokerAccess): Promise<{ readonly id: string; readonly lock: string }[]> {
    const active = (await server.lRange(queue.toKey('active'), 0, -1)).reverse();
    if (active.length === 0) return [];
    const locks = await server.mGet(active.map((id) => queue.toKey(`${id}:lock`)));
    return active.flatMap((id, index) => {
      const lock = locks[index];
      return lock?.startsWith(`${this.#session}/`) ? [{ id, lock }] : [];
    });
  }

  /** The first job decides: if it must run alone it is the only one, and comes only if this session holds nothing. */
  async #claimDue(
    reached: BrokerAccess,
    { max, lock, leaseMs, mayBeAlone }: { max: number; lock: string; leaseMs: number; mayBeAlone: boolean },
  ): Promise<FoundJob[]> {
    const first = await fetchJobs(reached, 1, lock);
    const suspect = first.some(({ job }) => mustRunAlone(job));
    const more = suspect || first.length === 0 ? [] : await fetchJobs(reached, max - 1, lock);
    const [claimed, back]: [FoundJob[], FoundJob[]] = [[], []];
    for (const found of [...first, ...more]) {
      const { id, job } = found;
      const deadline = deadlineOf(job);
      const isExpired = deadline !== null && deadline <= wallTime();
      if (isExpired) await addDeadlines(reached, [{ id: itemIdOf(id), deadline }]);
      if (isExpired || (mustRunAlone(job) && !(mayBeAlone && claimed.length === 0 && suspect))) back.push(found);
      else claimed.push(found);
    }
    await giveBack(reached, back, lock);
    return this.#leased(reached, claimed, lock, leaseMs);
  }

  async #claimExpired(reached: BrokerAccess, max: number, lock: string, leaseMs: number): Promise<FoundJob[]> {
    const { server } = reached;
    const due = await server.zRangeByScore(deadlinesOf(reached), 0, wallTime(), { LIMIT: { offset: 0, count: max } });
    const states = await Promise.all(due.map((id) => reached.backend.getState(id)));
    const waiting = due.filter((_, index) => WAITING.has(states[index] ?? ''));
    const gone = due.filter((id) => !waiting.includes(id));
    if (gone.length > 0) await server.zRem(deadlinesOf(reached), gone);
    if (waiting.length === 0) return [];
    return this.#leased(reached, await this.#take(reached, waiting, lock), lock, leaseMs);
  }

  /** Claims these waiting jobs: BullMQ hands out only the first, so they go to the front. */
  async #take(reached: BrokerAccess, ids: readonly string[], lock: string): Promise<FoundJob[]> {
    const { backend } = reached;
    for (const id of [...ids].reverse()) {
      // A delayed job has no place yet. The job may meanwhile be gone: then another one comes, and goes back.
      if ((await backend.getState(id)) === 'delayed') await backend.promote(id).catch(() => {});
      await backend.changePriority(id, 0, true).catch(() => {});
    }
    const found = await fetchJobs(reached, ids.length, lock);
    const wanted = new Set(ids);
    await giveBack(
      reached,
      found.filter(({ id }) => !wanted.has(id)),
      lock,
    );
    return found.filter(({ id }) => wanted.has(id));
  }

  /** Ends the jobs whose attempts are exhausted, and lets the others have the lease that was asked for. */
  async #leased(reached: BrokerAccess, found: readonly FoundJob[], lock: string, leaseMs: number): Promise<FoundJob[]> {
    const { server, backend } = reached;
    if (found.length === 0) return [];
    await server.zRem(
      deadlinesOf(reached),
      found.map(({ id }) => id),
    );
    if (leaseMs !== LOCK_MS) await Promise.all(found.map(({ id }) => backend.extendLock(id, lock, leaseMs)));
    const kept: FoundJob[] = [];
    for (const each of found) {
      const why = this.#whyDead(each);
      if (why === null) kept.push(each);
      // BullMQ counts this end as an attempt; the ended lease has counted already.
      else await fail(backend, each.id, lock, why, { stc: Math.max(0, Number(each.job.stalledCounter) - 1) });
    }
    return kept;
  }

  #whyDead({ id, job }: FoundJob): string | null {
    if (attemptsOf(job) >= this.#limits.maxAttempts) return job.failedReason ?? 'its lease ended';
    try {
      claimOf(id, job, '');
      return null;
    } catch (thrown) {
      return asModeletError(thrown, 'protocol_error').message;
    }
  }

  /** Takes back the jobs whose leases have ended, and makes those with too many attempts dead letters. */
  async #endLeases(reached: BrokerAccess): Promise<void> {
    const { server, queue, backend } = reached;
    const ended = await backend.moveStalledJobsToWait();
    for (const { id, job } of await readJobs(reached, ended)) {
      await server.hSet(queue.toKey(id), 'failedReason', 'its lease ended');
      await addDeadlines(reached, [{ id: itemIdOf(id), deadline: deadlineOf(job) }]);
      if (attemptsOf(job) < this.#limits.maxAttempts) continue;
      const lock = this.#lockOf(`end-${id}`);
      await this.#leased(reached, await this.#take(reached, [id], lock), lock, LOCK_MS);
    }
  }

  async #complete(reached: BrokerAccess, { id, token, ok, result }: Ack, reason: string | null): Promise<boolean> {
    const [jobId, lock] = [jobIdOf(id), this.#lockOf(token)];
    const outcome = keptOutcome({ ok, result, reason }, lock);
    try {
      await reached.backend.moveToCompleted(asMinimal(jobId), outcome, false, lock, false);
      await reached.server.zRem(deadlinesOf(reached), jobId);
      return true;
    } catch (thrown) {
      if (!isFenced(thrown)) throw thrown;
      const [found] = await readJobs(reached, [jobId]);
      return found !== undefined && outcomeOfJob(found.job.returnvalue).by === lock;
    }
  }

  async #nackOne(reached: BrokerAccess, { id, token }: HeldClaim, options: NackOptions): Promise<Nacked> {
    const { delayMs, reason, countAttempt, alone } = options;
    const { backend } = reached;
    const [jobId, lock] = [jobIdOf(id), this.#lockOf(token)];
    const [found] = await readJobs(reached, [jobId]);
    if (!found) return 'lost';
    try {
      if (countAttempt && attemptsOf(found.job) + 1 >= this.#limits.maxAttempts) {
        await fail(backend, jobId, lock, reason);
        return 'dead';
      }
      // Only this move leaves the item its place, and it can carry nothing.
      if (delayMs <= 0 && !countAttempt && !alone) await backend.moveJobFromActiveToWait(jobId, lock);
      else {
        const fieldsToUpdate = { failedReason: reason, ...(alone && { progress: ALONE, priority: 0 }) };
        const until = Math.max(0, Math.round(delayMs));
        await backend.moveToDelayed(jobId, wallTime(), until, lock, { skipAttempt: !countAttempt, fieldsToUpdate });
      }
      await addDeadlines(reached, [{ id, deadline: deadlineOf(found.job) }]);
      return 'again';
    } catch (thrown) {
      if (!isFenced(thrown)) throw thrown;
      return settledBefore(reached, jobId, lock);
    }
  }

  async #bury(reached: BrokerAccess, { id, token }: HeldClaim, reason: string): Promise<boolean> {
    const [jobId, lock] = [jobIdOf(id), this.#lockOf(token)];
    try {
      await fail(reached.backend, jobId, lock, reason);
      return true;
    } catch (thrown) {
      if (!isFenced(thrown)) throw thrown;
      return (await settledBefore(reached, jobId, lock)) === 'dead';
    }
  }
}

function toClaims(found: readonly FoundJob[], token: string): Claim[] {
  return found.map(({ id, job }) => claimOf(id, job, token));
}
