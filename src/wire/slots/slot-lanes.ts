/**
 * The large payloads of batches and replies, beside their frames: the frame only says where in the slot file they are.
 * A batch has one slot. Its inputs are at the slot's beginning, and its results take their place, or that of results
 * like the last ones. What has no room travels in the frame.
 */
import { padded } from '../codec/sizes.ts';
import type { Frame } from '../frames/frames.ts';
import { malformed, type SlotPlaces, type WireItem } from '../frames/items.ts';
import { SLOT_FROM, SLOTS_FD, SlotFile } from './slot-file.ts';
import type { Extent, SharedSlot, Slots } from './slots.ts';

/** The part of a channel that moves payloads from frames to slots, and back. */
export interface SlotChannel {
  /** Returns the frame to send in place of one. */
  outgoing(frame: Frame): Frame;
  /** Reads a payload of a frame that has come. @throws ModeletError `protocol_error` */
  read(batch: number, at: number, length: number): Uint8Array;
  /** All payloads of the frame have been read. */
  received(frame: Frame): void;
}

/** Most bytes of a slot. Copying more at once would hold up the event loop; the socket takes it piece by piece. */
const MOST_BYTES = 16 * 1024 * 1024;
/** Weight that the size of earlier results keeps at each batch. */
const KEPT = 0.9;

type SlottedBatch = Extract<Frame, { type: 'batch' }>;
type SlottedReply = Extract<Frame, { type: 'reply' }>;

/** The engine's end, for one process of a worker. */
export class EngineSlots implements SlotChannel {
  readonly #slots: Slots;
  readonly #onFull: () => void;
  readonly #sent: Map<number, SharedSlot> = new Map();
  /** Whether the process has said that it can use slots. */
  #isUsed = false;
  /** Bytes of one result, as the last ones were; 0: they were small. */
  #resultBytes = 0;

  /** @param onFull called when there is no room for a batch, or no memory */
  constructor(slots: Slots, onFull: () => void) {
    this.#slots = slots;
    this.#onFull = onFull;
  }

  get fd(): number {
    return this.#slots.file.fd;
  }

  outgoing(frame: Frame): Frame {
    return frame.type === 'batch' && this.#isUsed ? this.#batch(frame) : frame;
  }

  read(batch: number, at: number, length: number): Uint8Array {
    const slot = this.#sent.get(batch);
    if (!slot || at < slot.at || at + length > slot.at + slot.bytes) throw malformed('a payload outside of its slot');
    slot.enter('held');
    return readFrom(this.#slots.file, at, length);
  }

  received(frame: Frame): void {
    if (frame.type === 'report' && frame.body.slots) this.#isUsed = true;
    if (frame.type !== 'reply') return;
    const largest = frame.items.reduce(
      (most, { ok, payload }) => (ok ? Math.max(most, payload.bytes.byteLength) : most),
      0,
    );
    const bytes = Math.max(largest, this.#resultBytes * KEPT);
    this.#resultBytes = bytes >= SLOT_FROM ? padded(Math.round(bytes)) : 0;
    this.#sent.get(frame.batch)?.enter('freed');
    this.#sent.delete(frame.batch);
  }

  /** The process has ended: it can write nothing any more. */
  end(): void {
    for (const slot of this.#sent.values()) slot.enter('freed');
    this.#sent.clear();
  }

  #batch(frame: SlottedBatch): Frame {
    const large = frame.items.filter(isLarge);
    const inputs = bytesOf(large);
    const results = this.#resultBytes * frame.items.length;
    const needed = results <= MOST_BYTES ? Math.max(inputs, results) : inputs;
    if (needed === 0 || inputs > MOST_BYTES) return frame;
    const slot = this.#slots.take(needed) ?? this.#slots.take(inputs);
    const places = slot && placed(this.#slots.file, large, slot);
    if (!slot || !places) {
      slot?.enter('freed');
      this.#onFull();
      return frame;
    }
    slot.enter('sent');
    this.#sent.set(frame.batch, slot);
    return { ...frame, places, room: slot };
  }
}

/** A worker's end. */
export class WorkerSlots implements SlotChannel {
  readonly #file: SlotFile;
  readonly #onBytes: (count: number) => void;
  /** The slots of batches that have not been answered. */
  readonly #rooms: Map<number, Extent> = new Map();

  /** @param onBytes called with the bytes of payloads that have been read, or are about to be written */
  constructor(onBytes: (count: number) => void, fd: number = SLOTS_FD) {
    this.#file = new SlotFile(fd);
    this.#onBytes = onBytes;
  }

  outgoing(frame: Frame): Frame {
    return frame.type === 'reply' && this.#rooms.size > 0 ? this.#reply(frame) : frame;
  }

  read(_batch: number, at: number, length: number): Uint8Array {
    this.#onBytes(length);
    return readFrom(this.#file, at, length);
  }

  received(frame: Frame): void {
    if (frame.type === 'batch' && frame.room) this.#rooms.set(frame.batch, frame.room);
  }

  #reply(frame: SlottedReply): Frame {
    const room = this.#rooms.get(frame.batch);
    if (!room) return frame;
    this.#rooms.delete(frame.batch);
    let left = room.bytes;
    const fitting = frame.items.filter((item) => {
      const bytes = isLarge(item) ? padded(item.payload.bytes.byteLength) : Number.POSITIVE_INFINITY;
      if (bytes > left) return false;
      left -= bytes;
      return true;
    });
    if (fitting.length === 0) return frame;
    this.#onBytes(room.bytes - left);
    const places = placed(this.#file, fitting, room);
    return places ? { ...frame, places } : frame;
  }
}

function isLarge({ payload }: WireItem): boolean {
  return payload.bytes.byteLength >= SLOT_FROM;
}

function bytesOf(items: readonly WireItem[]): number {
  return items.reduce((sum, { payload }) => sum + padded(payload.bytes.byteLength), 0);
}

/** Writes the payloads of the items to the beginning of a room. Returns their places, or null if there is no memory. */
function placed(file: SlotFile, items: readonly WireItem[], { at }: Extent): SlotPlaces | null {
  const payloads = items.map(({ payload }) => payload.bytes);
  if (!file.write(payloads, at)) return null;
  const places = new Map<WireItem, number>();
  let next = at;
  for (const item of items) {
    places.set(item, next);
    next += padded(item.payload.bytes.byteLength);
  }
  return places;
}

function readFrom(file: SlotFile, at: number, length: number): Uint8Array {
  try {
    return file.read(at, length);
  } catch (thrown) {
    throw malformed(`a payload cannot be read from its slot: ${(thrown as Error).message}`);
  }
}
