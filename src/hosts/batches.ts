/**
 * How a batch of a remote stage, the parts of its results, and what became of it, are kept as the payloads of a queue.
 * Remote stages in a row are one job: the batch of the first names the others, and the host answers for all of them.
 */
import type { Deadline } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import { NO_COST, type Outcome, type Payload, type StageTiming } from '../core/model.ts';
import type { Batch } from '../runtime/engine/pools/pool.ts';
import { CODEC } from '../wire/codec/codec.ts';
import { failedPayload } from '../wire/frames/failures.ts';
import { decodeFrame, encodeFrame, type ItemFrame, type WireItem } from '../wire/frames/frames.ts';
import { bareItem } from '../wire/frames/items.ts';

/** Items that a host runs through one stage or several. */
export interface RemoteBatch {
  readonly tag: 'batch';
  readonly items: readonly WireItem[];
  /** Keys of the further stages that the host runs the items through, in order. */
  readonly row: readonly string[];
  /** Metas that take the place of the items' own. */
  readonly states?: Batch['states'];
}

/** A job for a host. `check`: it runs the examples of the stage. Its answer is one reply, whose `part` counts them. */
export type RemoteWork = RemoteBatch | { readonly tag: 'check'; readonly deadline: Deadline };

/**
 * Returns how many batches may be on their way beyond those for the first stage, so that further stages are busy, too.
 * @param items that the further stages can run at a time
 * @param batches on their way, with their items
 */
export function batchesAhead(items: number, batches: readonly { readonly length: number }[]): number {
  const sent = batches.reduce((sum, { length }) => sum + length, 0);
  return sent === 0 ? 0 : Math.ceil((items * batches.length) / sent);
}

/** @param toServer converts deadlines, which another machine could not read */
export function encodeWork(work: RemoteWork, toServer: (deadline: Deadline) => number): Payload {
  if (work.tag === 'check') {
    const head = { ...bareItem(HEAD, { codec: CODEC.none, bytes: NOTHING }), deadline: toServer(work.deadline) };
    return encode({ type: 'batch', batch: 0, items: [head] });
  }
  const sent = work.items.map((item) => {
    const { id, deadline, priority, payload, streams, key } = item;
    const meta = work.states?.get(item) ?? item.meta;
    return { ...bareItem(id, payload), deadline: toServer(deadline), priority, meta, streams, key };
  });
  const row = { codec: CODEC.bytes, bytes: Buffer.from(JSON.stringify(work.row)) };
  const costs = work.items.map(({ cost }) => cost);
  const meta = costs.some((cost) => cost !== NO_COST) ? Buffer.from(JSON.stringify(costs)) : null;
  return encode({ type: 'batch', batch: 0, items: [{ ...bareItem(HEAD, row), meta }, ...sent] });
}

/** @throws ModeletError `protocol_error` */
export function decodeWork(payload: Payload, fromServer: (time: number) => Deadline): RemoteWork {
  const [head, ...items] = decode(payload, 'batch').items;
  if (head?.id !== HEAD) throw new ModeletError('protocol_error', 'a batch without the row of its stages');
  if (items.length === 0) return { tag: 'check', deadline: fromServer(head.deadline) };
  const row = JSON.parse(Buffer.from(head.payload.bytes).toString()) as string[];
  const costs = head.meta ? (JSON.parse(Buffer.from(head.meta).toString()) as number[]) : [];
  const sent = items.map((item, index) => {
    return { ...item, deadline: fromServer(item.deadline), cost: costs[index] ?? NO_COST };
  });
  return { tag: 'batch', items: sent, row };
}

/** Number of the first item of a job, which carries the row and the costs of a batch, or the deadline of a check. No request has it. */
const HEAD = 0;
const NOTHING = new Uint8Array();

/** The answer to a batch, or to a check. */
export interface BatchReply {
  /** Longest run of an item at the first stage, in ms. */
  readonly runMs: number;
  /** In the order of the batch, each with the timings of the stages that it has passed. */
  readonly replies: readonly WireItem[];
}

export function encodeReplies({ runMs, replies }: BatchReply): Payload {
  return encode({ type: 'reply', batch: 0, runMs, runs: 0, items: replies });
}

/** @param error why the examples failed; null if they did not */
export function encodeChecked(examples: number, error: ModeletError | null): Payload {
  const value = { codec: CODEC.none, bytes: NOTHING };
  const outcome: Outcome<Payload> = error ? { ok: false, error } : { ok: true, value };
  return encodeReplies({ runMs: 0, replies: [replyOf(HEAD, outcome, [], examples)] });
}

/** @throws ModeletError `protocol_error` */
export function decodeReplies(payload: Payload): BatchReply {
  const { runMs, items } = decode(payload, 'reply');
  return { runMs, replies: items };
}

/**
 * @param outcome an error of a further stage brings that stage's input
 * @param timings of the stages that have answered the item, in order
 * @param parts number of parts of the result that were sent before
 * @param meta the snapshot of the state that the item has left of its key; null: none
 */
export function replyOf(
  id: number,
  outcome: Outcome<Payload>,
  timings: readonly StageTiming[],
  parts: number,
  meta: Uint8Array | null = null,
): WireItem {
  const payload = outcome.ok ? outcome.value : failedPayload(outcome.error, outcome.input ?? null);
  return { ...bareItem(id, payload), ok: outcome.ok, part: parts, timings: [...timings], meta };
}

/** How long the parts of results stay on the broker after a host has written some. */
export const PARTS_KEPT_MS = 60_000;

/** Returns the name of the stream into which the parts of a batch go. @param batch its name, or the session in it */
export function partsKeyOf(batch: string): string {
  return `parts:${batch.split(':')[0]}`;
}

export function encodeParts(items: readonly WireItem[]): Buffer {
  return Buffer.concat(encodeFrame({ type: 'parts', items }));
}

/** @throws ModeletError `protocol_error` */
export function decodeParts(bytes: Buffer): readonly WireItem[] {
  return decode({ codec: CODEC.bytes, bytes }, 'parts').items;
}

function encode(frame: ItemFrame): Payload {
  return { codec: CODEC.bytes, bytes: Buffer.concat(encodeFrame(frame)) };
}

function decode<Type extends 'batch' | 'reply' | 'parts'>(
  { bytes }: Payload,
  type: Type,
): Extract<ItemFrame, { type: Type }> {
  // A separate buffer: values of typed arrays are views, whose place in it must be a multiple of their size.
  const frame = decodeFrame(Buffer.from(new Uint8Array(bytes).buffer));
  if (frame.type !== type) throw new ModeletError('protocol_error', `a ${frame.type} frame instead of a ${type}`);
  return frame as Extract<ItemFrame, { type: Type }>;
}
