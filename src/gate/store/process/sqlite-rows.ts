/** Converts between rows of an embedded queue and the types of the queue. */
import { crc32 } from 'node:zlib';
import type { Payload } from '../../../core/model.ts';
import { compareWaiting, type WaitingOrder } from '../../../core/queues/priority-heap.ts';
import type { Claim, DeadLetter, ItemResult } from '../work-queue.ts';
import type { Row, SqlValue } from './sqlite.ts';
import { NO_DEADLINE, STATE } from './sqlite-schema.ts';

/** Returns codec, bytes and checksum, in the order of the columns. */
export function columnsOf(payload: Payload): [number, Uint8Array, number] {
  return [payload.codec, payload.bytes, crc32(payload.bytes)];
}

/** Whether the bytes of a row still match their checksum. */
export function isSound({ payload, crc }: Row): boolean {
  return payload === null || crc32(payload as Uint8Array) === crc;
}

/** Returns the rows as claims, in the order in which they are due. */
export function claimsOf(rows: readonly Row[]): Claim[] {
  return rows.toSorted(byUrgency).map((row) => ({
    id: String(row['id']),
    token: String(row['token']),
    payload: { codec: Number(row['codec']), bytes: row['payload'] as Uint8Array },
    priority: Number(row['priority']),
    deadline: row['deadline'] === NO_DEADLINE ? null : Number(row['deadline']),
    enqueuedAt: Number(row['enqueued_at']),
    attempt: Number(row['attempts']) + 1,
    alone: row['alone'] === 1,
  }));
}

/** The order of WAITING_ORDER, for rows: an UPDATE returns its rows in no order. */
function byUrgency(a: Row, b: Row): number {
  return compareWaiting(waitingOf(a), waitingOf(b));
}

function waitingOf({ priority, deadline, seq }: Row): WaitingOrder {
  return { priority: Number(priority), deadline: Number(deadline), number: Number(seq) };
}

/** Converts a row of `item`. */
export function openResult({ state, attempts, reason }: Row): ItemResult {
  const name = state === STATE.leased ? 'running' : state === STATE.dead ? 'dead' : 'pending';
  return { state: name, result: null, attempts: Number(attempts), reason: textOf(reason) };
}

/** Converts a row of `outcome`. */
export function endedResult({ ok, codec, payload, attempts, reason }: Row): ItemResult {
  const result = payload instanceof Uint8Array ? { codec: Number(codec), bytes: payload } : null;
  return { state: ok === 1 ? 'done' : 'failed', result, attempts: Number(attempts), reason: textOf(reason) };
}

export function deadLetterOf({ id, attempts, reason }: Row): DeadLetter {
  return { id: String(id), attempts: Number(attempts), reason: textOf(reason) ?? '' };
}

export function bytesOf(text: string): Uint8Array {
  return Buffer.from(text);
}

function textOf(bytes: SqlValue | undefined): string | null {
  return bytes instanceof Uint8Array ? Buffer.from(bytes).toString() : null;
}
