/**
 * The end of a worker, which uses the slot that each batch is lent: its inputs may be there, or in slots of others, and its
 * results go there.
 */
import type { ChunkedBytes } from '../../core/model.ts';
import type { Frame } from '../frames/frames.ts';
import { OTHER } from '../frames/items.ts';
import { readFrom, type SlotChannel, written } from './slot-channel.ts';
import { LENT_FD, OTHER_FD, SlotFile } from './slot-file.ts';
import type { Extent } from './slots.ts';

export class WorkerSlots implements SlotChannel {
  readonly #lent: SlotFile;
  readonly #other: SlotFile;
  readonly #onBytes: (count: number) => void;
  /** The slots of batches that have not been answered. */
  readonly #rooms: Map<number, Extent> = new Map();
  isIdle = true;

  /** @param onBytes called with the bytes of payloads that have been read, or are about to be written */
  constructor(onBytes: (count: number) => void, lentFd: number = LENT_FD, otherFd: number = OTHER_FD) {
    this.#lent = new SlotFile(lentFd);
    this.#other = new SlotFile(otherFd);
    this.#onBytes = onBytes;
  }

  outgoing(frame: Frame): readonly Frame[] {
    if (frame.type !== 'reply') return [frame];
    const room = this.#rooms.get(frame.batch);
    if (!room) return [frame];
    this.#rooms.delete(frame.batch);
    this.isIdle = this.#rooms.size === 0;
    const places = written(this.#lent, frame.items, room, this.#onBytes);
    return [places ? { ...frame, places } : frame];
  }

  read(_batch: number, at: number | null, length: number): ChunkedBytes {
    this.#onBytes(length);
    const place = at ?? 0;
    return place < OTHER ? readFrom(this.#lent, place, length) : readFrom(this.#other, place - OTHER, length);
  }

  received(frame: Frame): null {
    if (frame.type === 'batch' && frame.room) {
      this.#rooms.set(frame.batch, frame.room);
      this.isIdle = false;
    }
    return null;
  }
}
