/** How an item of a queue is kept as a job of BullMQ, and its outcome as the result of that job. */
import { isUtf8 } from 'node:buffer';
import type { JobJson, JobsOptions } from 'bullmq';
import { ModeletError } from '../../core/errors.ts';
import type { Payload } from '../../core/model.ts';
import type { Ack, Claim, ItemResult, QueueItem } from '../work-queue.ts';

/** Bytes in JSON: as text if they are, which BullMQ's own tools can show and which is a third shorter than base64. */
type Kept = { readonly codec: number } & ({ readonly text: string } | { readonly base64: string });

interface KeptItem {
  readonly payload: Kept;
  readonly deadline: number | null;
  readonly priority: number;
}

interface KeptOutcome {
  readonly ok: boolean;
  /** Token of the claim that ended the item. */
  readonly by: string;
  readonly result: Kept | null;
  readonly reason: string | null;
}

export interface NewJob {
  readonly name: string;
  readonly data: KeptItem;
  readonly opts: JobsOptions;
}

/** BullMQ takes 1 (first) to 2^21 (last); 0 comes before all of them and is for items that run alone. */
const MIDDLE_PRIORITY = 2 ** 20;
const LAST_PRIORITY = 2 ** 21;
/** Marks, in the `progress` of a job, an item that was given back to run alone. */
export const ALONE = 1;

/** BullMQ's ids hold no colon and are no number, and an id must not be the name of one of its keys; ours hold no tilde. */
export function jobIdOf(id: string): string {
  return `~${id.replaceAll(':', '~')}`;
}

export function itemIdOf(jobId: string): string {
  return jobId.slice(1).replaceAll('~', ':');
}

export function jobOf({ id, payload, priority, deadline }: QueueItem): NewJob {
  const kept = Math.round(priority);
  const place = Math.min(LAST_PRIORITY, Math.max(1, MIDDLE_PRIORITY - kept));
  const data = { payload: keep(payload), deadline, priority: kept };
  return { name: 'item', data, opts: { jobId: jobIdOf(id), priority: place } };
}

/** @throws ModeletError `protocol_error` if this package has not made the job. */
export function itemOf(job: JobJson): Omit<QueueItem, 'id'> {
  const { payload, deadline = null, priority = 0 } = parsed<KeptItem>(job.data);
  if (!payload) throw new ModeletError('protocol_error', 'the job contains no item');
  return { payload: restore(payload), deadline, priority };
}

/** Returns null for a job without deadline, or that this package has not made. */
export function deadlineOf(job: JobJson): number | null {
  return parsed<KeptItem>(job.data).deadline ?? null;
}

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

export function keptOutcome(
  { ok, result }: Pick<Ack, 'ok' | 'result'>,
  by: string,
  reason: string | null,
): KeptOutcome {
  return { ok, by, result: result && keep(result), reason };
}

/** Returns the token of the claim that has ended the item. */
export function endedBy(job: JobJson): string | undefined {
  return parsed<KeptOutcome>(job.returnvalue).by;
}

export function resultOfJob(job: JobJson): ItemResult {
  const { ok, result = null, reason = null } = parsed<KeptOutcome>(job.returnvalue);
  return { state: ok ? 'done' : 'failed', result: result && restore(result), attempts: attemptsOf(job), reason };
}

/** Reads the outcome that BullMQ's event of a completed job carries. */
export function resultOfEvent(returnvalue: string): Pick<ItemResult, 'result' | 'reason'> {
  const { result = null, reason = null } = parsed<KeptOutcome>(returnvalue);
  return { result: result && restore(result), reason };
}

function keep({ codec, bytes }: Payload): Kept {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return isUtf8(buffer) ? { codec, text: buffer.toString() } : { codec, base64: buffer.toString('base64') };
}

function restore(kept: Kept): Payload {
  const bytes = 'text' in kept ? Buffer.from(kept.text) : Buffer.from(kept.base64, 'base64');
  return { codec: kept.codec, bytes };
}

function parsed<T>(text: string | undefined): Partial<T> {
  try {
    return (JSON.parse(text ?? '') as Partial<T> | null) ?? {};
  } catch {
    return {};
  }
}
