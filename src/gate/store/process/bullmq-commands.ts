/** The commands and readings of which the queue of bullmq-queue.ts is made. */
import type { IQueueBackend, JobJson } from 'bullmq';
import type { BrokerAccess } from '../../../broker/broker-link.ts';
import { asMinimal, isFenced, itemIdOf, itemOf, jobIdOf, readJobs } from '../../../broker/jobs.ts';
import { wallTime } from '../../../core/clock.ts';
import { type Claim, type Nacked, type QueueStats, TOLD_DEAD_LETTERS } from '../work-queue.ts';

/** Time until `stats` shall be asked again: another Node-RED may store something at any time. */
const LOOK_AGAIN_MS = 1000;
const FIRST = { LIMIT: { offset: 0, count: 1 } } as const;
/** BullMQ keeps the time of a delayed job in all but the last 12 bits of its score. */
const DELAY_UNIT = 0x1000;
/** Marks, in the `progress` of a job, an item that was given back to run alone. */
export const ALONE = 1;
/** States of a job that can be claimed, now or later. */
export const WAITING: ReadonlySet<string> = new Set(['waiting', 'prioritized', 'delayed']);

/** @throws ModeletError `protocol_error` */
export function claimOf(jobId: string, job: JobJson, token: string): Claim {
  const alone = mustRunAlone(job);
  return { id: itemIdOf(jobId), token, ...itemOf(job), attempt: attemptsOf(job) + 1, alone, enqueuedAt: job.timestamp };
}

/** Attempts counted so far: failed ones, and leases that ended. */
export function attemptsOf({ attemptsMade, stalledCounter }: JobJson): number {
  return Number(attemptsMade) + Number(stalledCounter);
}

export function mustRunAlone({ progress, stalledCounter }: JobJson): boolean {
  return progress === ALONE || Number(stalledCounter) > 0;
}

export function deadlinesOf({ queue }: BrokerAccess): string {
  return queue.toKey('deadlines');
}

export async function waitingIn({ server, queue }: BrokerAccess): Promise<number> {
  const counts = await Promise.all([
    server.lLen(queue.toKey('wait')),
    server.zCard(queue.toKey('prioritized')),
    server.zCard(queue.toKey('delayed')),
  ]);
  return counts.reduce((sum, count) => sum + count, 0);
}

export async function addDeadlines(
  reached: BrokerAccess,
  items: readonly { readonly id: string; readonly deadline: number | null }[],
): Promise<void> {
  const members = items.flatMap(({ id, deadline }) => {
    return deadline === null ? [] : [{ score: deadline, value: jobIdOf(id) }];
  });
  if (members.length > 0) await reached.server.zAdd(deadlinesOf(reached), members);
}

/** Last first: each goes before those that wait in its place. Leases that have ended meanwhile are no concern. */
export async function giveBack(
  { backend }: BrokerAccess,
  held: readonly { readonly id: string }[],
  lock: string,
): Promise<void> {
  for (const { id } of [...held].reverse()) {
    await backend.moveJobFromActiveToWait(id, lock).catch((thrown: unknown) => {
      if (!isFenced(thrown)) throw thrown;
    });
  }
}

/** @param fields of the job to set with it */
export async function fail(
  backend: IQueueBackend,
  id: string,
  lock: string,
  reason: string,
  fields: object = {},
): Promise<void> {
  await backend.moveToFailed(asMinimal(id), reason, false, lock, false, { failedReason: reason, ...fields });
}

/** Tells how an earlier call with the same token has settled an item that is no longer claimed with it. */
export async function settledBefore(reached: BrokerAccess, id: string, lock: string): Promise<Nacked> {
  const [found] = await readJobs(reached, [id]);
  if (found?.job.processedBy !== lock) return 'lost';
  const state = await reached.backend.getState(id);
  if (state === 'failed') return 'dead';
  return WAITING.has(state) ? 'again' : 'lost';
}

export async function readStats(reached: BrokerAccess): Promise<QueueStats> {
  const { server, queue } = reached;
  const now = wallTime();
  const key = (name: string): string => queue.toKey(name);
  const [wait, prioritized, delayed, due, leased, dead, letters, ages, wakeInMs] = await Promise.all([
    server.lLen(key('wait')),
    server.zCard(key('prioritized')),
    server.zCard(key('delayed')),
    server.zCount(key('delayed'), 0, (now + 1) * DELAY_UNIT - 1),
    server.lLen(key('active')),
    server.zCard(key('failed')),
    server.zRange(key('failed'), 0, TOLD_DEAD_LETTERS - 1, { REV: true }),
    agesOfHeads(reached, now),
    wakeIn(reached, now),
  ]);
  const deadLetters = (await readJobs(reached, letters)).map(({ id, job }) => {
    return { id: itemIdOf(id), attempts: attemptsOf(job), reason: job.failedReason ?? '' };
  });
  const ready = wait + prioritized + due;
  return { ready, leased, delayed: delayed - due, dead, oldestMs: Math.max(0, ...ages), wakeInMs, deadLetters };
}

/** Ages of the first items, in ms. */
async function agesOfHeads(reached: BrokerAccess, now: number): Promise<number[]> {
  const { server, queue } = reached;
  const heads = await Promise.all([
    server.lRange(queue.toKey('wait'), -1, -1),
    server.zRange(queue.toKey('prioritized'), 0, 0),
    server.zRange(queue.toKey('delayed'), 0, 0),
  ]);
  return (await readJobs(reached, heads.flat())).map(({ job }) => now - job.timestamp);
}

async function wakeIn({ server, queue }: BrokerAccess, now: number): Promise<number> {
  const [[delayed], [deadline]] = await Promise.all([
    server.zRangeByScoreWithScores(queue.toKey('delayed'), (now + 1) * DELAY_UNIT, '+inf', FIRST),
    server.zRangeWithScores(queue.toKey('deadlines'), 0, 0),
  ]);
  const due = [delayed && Math.floor(delayed.score / DELAY_UNIT), deadline?.score].filter((at) => at !== undefined);
  return Math.max(0, Math.min(LOOK_AGAIN_MS, ...due.map((at) => at - now)));
}
