/** How a batch of a remote stage, the parts of its results, and what became of it, are kept as the payloads of a queue. */
import { ModeletError } from '../core/errors.ts';
import type { Outcome, Payload } from '../core/model.ts';
import { CODEC } from '../wire/codec/codec.ts';
import { encodeError } from '../wire/codec/error-codec.ts';
import { decodeFrame, encodeFrame, type ItemFrame, type WireItem } from '../wire/frames/frames.ts';
import { bareItem } from '../wire/frames/items.ts';

/** @param toServer converts deadlines, which another machine could not read */
export function encodeBatch(items: readonly WireItem[], toServer: (deadline: number) => number): Payload {
  const sent = items.map(({ id, deadline, priority, payload, meta, streams }) => {
    return { ...bareItem(id, payload), deadline: toServer(deadline), priority, meta, streams };
  });
  return encode({ type: 'batch', batch: 0, items: sent });
}

/** @throws ModeletError `protocol_error` */
export function decodeBatch(payload: Payload, fromServer: (time: number) => number): readonly WireItem[] {
  return decode(payload, 'batch').items.map((item) => ({ ...item, deadline: fromServer(item.deadline) }));
}

export interface BatchReply {
  /** Longest run of an item, in ms. */
  readonly runMs: number;
  /** In the order of the batch. */
  readonly replies: readonly WireItem[];
}

export function encodeReplies({ runMs, replies }: BatchReply): Payload {
  return encode({ type: 'reply', batch: 0, runMs, items: replies });
}

/** @throws ModeletError `protocol_error` */
export function decodeReplies(payload: Payload): BatchReply {
  const { runMs, items } = decode(payload, 'reply');
  return { runMs, replies: items };
}

/** @param parts number of parts of the result that were sent before */
export function replyOf(id: number, outcome: Outcome<Payload>, parts: number): WireItem {
  if (outcome.ok) return { ...bareItem(id, outcome.value), part: parts };
  return { ...bareItem(id, { codec: CODEC.none, bytes: encodeError(outcome.error) }), ok: false, part: parts };
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
  // A buffer of its own: values of typed arrays are views, whose place in it must be a multiple of their size.
  const frame = decodeFrame(Buffer.from(new Uint8Array(bytes).buffer));
  if (frame.type !== type) throw new ModeletError('protocol_error', `a ${frame.type} frame instead of a ${type}`);
  return frame as Extract<ItemFrame, { type: Type }>;
}
