/** Jobs of BullMQ: how they hold an item and its outcome, and the commands that take and read them. */
import { isUtf8 } from 'node:buffer';
import type { JobJson, JobsOptions, MinimalJob } from 'bullmq';
import { ModeletError } from '../core/errors.ts';
import type { Payload } from '../core/model.ts';
import type { BrokerAccess } from './broker-link.ts';

export interface JobItem {
  readonly id: string;
  readonly payload: Payload;
  readonly priority: number;
  /** Time of day in ms since 1970; null: none. */
  readonly deadline: number | null;
}

/** How an item ended. */
export interface JobOutcome {
  readonly ok: boolean;
  readonly result: Payload | null;
  readonly reason: string | null;
}

export interface FoundJob {
  readonly id: string;
  readonly job: JobJson;
}

/** Bytes in JSON: as text if they are, which BullMQ's own tools can show and which is a third shorter than base64. */
type JobBytes = { readonly codec: number } & ({ readonly text: string } | { readonly base64: string });

interface KeptItem {
  readonly payload: JobBytes;
  readonly deadline: number | null;
  readonly priority: number;
}

interface KeptOutcome {
  readonly ok: boolean;
  /** Token of the claim that ended the item. */
  readonly by: string;
  readonly result: JobBytes | null;
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

/** BullMQ's ids hold no colon and are no number, and an id must not be the name of one of its keys; ours hold no tilde. */
export function jobIdOf(id: string): string {
  return `~${id.replaceAll(':', '~')}`;
}

export function itemIdOf(jobId: string): string {
  return jobId.slice(1).replaceAll('~', ':');
}

export function jobOf({ id, payload, priority, deadline }: JobItem): NewJob {
  const kept = Math.round(priority);
  const place = Math.min(LAST_PRIORITY, Math.max(1, MIDDLE_PRIORITY - kept));
  const data = { payload: keep(payload), deadline, priority: kept };
  return { name: 'item', data, opts: { jobId: jobIdOf(id), priority: place } };
}

/** @throws ModeletError `protocol_error` if this package has not made the job. */
export function itemOf(job: JobJson): Omit<JobItem, 'id'> {
  const { payload, deadline = null, priority = 0 } = parsed<KeptItem>(job.data);
  if (!payload) throw new ModeletError('protocol_error', 'the job contains no item');
  return { payload: restore(payload), deadline, priority };
}

/** Returns null for a job without deadline, or that this package has not made. */
export function deadlineOf(job: JobJson): number | null {
  return parsed<KeptItem>(job.data).deadline ?? null;
}

export function keptOutcome({ ok, result, reason }: JobOutcome, by: string): KeptOutcome {
  return { ok, by, result: result && keep(result), reason };
}

/** Reads the outcome of a completed job: its return value, or that of its event. */
export function outcomeOfJob(returnvalue: string | undefined): JobOutcome & Pick<KeptOutcome, 'by'> {
  const { ok = false, by = '', result = null, reason = null } = parsed<KeptOutcome>(returnvalue);
  return { ok, by, result: result && restore(result), reason };
}

/** Takes up to so many of the first jobs. BullMQ writes the lock into each job, too, as the name of its worker. */
export async function fetchJobs({ backend }: BrokerAccess, most: number, lock: string): Promise<FoundJob[]> {
  const claims = Array.from({ length: Math.max(0, most) }, () => backend.moveToActive(lock, lock));
  // After a failure, too, a caller that looks for the claimed jobs must find all of them.
  await Promise.allSettled(claims);
  const answers = await Promise.all(claims);
  return answers.flatMap(([job, id]) => (job ? [{ id: String(id), job: job as JobJson }] : []));
}

export async function readJobs({ backend }: BrokerAccess, ids: readonly string[]): Promise<FoundJob[]> {
  const jobs = await Promise.all(ids.map((id) => backend.getJobData(id)));
  return ids.flatMap((id, index) => {
    const job = jobs[index];
    return job ? [{ id, job }] : [];
  });
}

/** BullMQ's commands take a job and read of it only the id and some options. The users of a queue count its attempts themselves. */
export function asMinimal(id: string): MinimalJob {
  return { id, opts: { attempts: Number.MAX_SAFE_INTEGER } } as MinimalJob;
}

/** Whether BullMQ refused a change because the caller does not hold the job's lock. */
export function isFenced(thrown: unknown): boolean {
  return /Missing (lock|key) for job|Lock mismatch for job|is not in the .* state/.test((thrown as Error).message);
}

function keep({ codec, bytes }: Payload): JobBytes {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return isUtf8(buffer) ? { codec, text: buffer.toString() } : { codec, base64: buffer.toString('base64') };
}

function restore(kept: JobBytes): Payload {
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
