/** The part of a channel that moves the large payloads of frames through slots, at either of its ends. */
import type { ChunkedBytes } from '../../core/model.ts';
import { byteLengthOf, Chunks, lentChunksOf } from '../codec/chunks.ts';
import { padded, padding } from '../codec/sizes.ts';
import { type Frame, needsSlot } from '../frames/frames.ts';
import { malformed, type SlotPlaces, type WireItem } from '../frames/items.ts';
import type { SlotFile } from './slot-file.ts';
import type { Extent } from './slots.ts';

export interface SlotChannel {
  /** Whether it has nothing to do for frames that do not concern slots, see `concernsSlots`. */
  readonly isIdle: boolean;
  /** Returns the frames to send in place of one. */
  outgoing(frame: Frame): readonly Frame[];
  /** Returns the bytes of a frame that has come, see `ReadSlot`. @throws ModeletError `protocol_error` */
  read(loan: number, at: number | null, length: number): ChunkedBytes;
  /** All payloads of the frame have been read. Returns what to say about that; null: nothing. */
  received(frame: Frame): Frame | null;
}

export function roomFor(items: readonly WireItem[]): number {
  return items.reduce((sum, { payload }) => sum + padded(byteLengthOf(payload)), 0);
}

/** Writes the payloads of the items to the beginning of a room. Returns their places, or null if there is no memory. */
export function placed(file: SlotFile, items: readonly WireItem[], { at }: Extent): SlotPlaces | null {
  const parts = items.flatMap(({ payload }) => [...lentChunksOf(payload), padding(byteLengthOf(payload))]);
  if (!file.write(parts, at)) return null;
  const places = new Map<WireItem, number>();
  let next = at;
  for (const item of items) {
    places.set(item, next);
    next += padded(byteLengthOf(item.payload));
  }
  return places;
}

/** @throws ModeletError `protocol_error` */
export function readFrom(file: SlotFile, at: number, length: number): Chunks {
  try {
    return new Chunks([file.read(at, length)]);
  } catch (thrown) {
    throw malformed(`a payload cannot be read from its slot: ${(thrown as Error).message}`);
  }
}

/**
 * Writes the results that have room, and frees them: a child reads no result again that it has sent.
 * @param onBytes called with the bytes that are about to be written
 * @returns null if no result has room, or there is no memory
 */
export function written(
  file: SlotFile,
  items: readonly WireItem[],
  room: Extent,
  onBytes: (count: number) => void,
): SlotPlaces | null {
  const some = fitting(items, room);
  if (some.length === 0) return null;
  onBytes(roomFor(some));
  const places = placed(file, some, room);
  if (places) for (const { payload } of some) payload.chunks?.free();
  return places;
}

/** Returns the items that fit into a room together, one behind the other, and need one. */
function fitting(items: readonly WireItem[], room: Extent): readonly WireItem[] {
  let left = room.bytes;
  return items.filter((item) => {
    const bytes = needsSlot(item) ? padded(byteLengthOf(item.payload)) : Number.POSITIVE_INFINITY;
    if (bytes > left) return false;
    left -= bytes;
    return true;
  });
}
