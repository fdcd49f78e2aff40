/**
 * Slots are parts of a slot file: one for each request to an engine that is large, and one for each batch to a worker that
 * has large payloads. Their owner, Node-RED's process or the engine, alone gives them out and takes them back. A slot is the
 * child's until it has answered, has said that a cancelled request needs it no more, or has ended, so neither a deadline
 * nor a cancelled request can let two of them have it.
 *
 *   filling  the owner writes the inputs                    -> sent | freed (there was no memory for them)
 *   sent     the child reads the inputs, writes its results -> held | freed (it needs the slot no more, or has ended)
 *   held     the owner reads the results, or has handed some of them on to other children, which only read them
 *                                                           -> freed (the last of them has let go)
 *   freed    another slot may take its place
 */
import type { Clock, Timer } from '../../core/clock.ts';
import type { SlotFile } from './slot-file.ts';

export type SlotState = 'filling' | 'sent' | 'held' | 'freed';

export const SLOT_TRANSITIONS: Readonly<Record<SlotState, readonly SlotState[]>> = {
  filling: ['sent', 'freed'],
  sent: ['held', 'freed'],
  held: ['freed'],
  freed: [],
};

/** A part of the file, in bytes. */
export interface Extent {
  readonly at: number;
  readonly bytes: number;
}

export class SharedSlot implements Extent {
  readonly at: number;
  readonly bytes: number;
  readonly #onFreed: (slot: SharedSlot) => void;
  #state: SlotState = 'filling';
  /** How many need it: the child that has it, and each result that has not been read. */
  #holders = 1;

  constructor({ at, bytes }: Extent, onFreed: (slot: SharedSlot) => void) {
    this.at = at;
    this.bytes = bytes;
    this.#onFreed = onFreed;
  }

  get state(): SlotState {
    return this.#state;
  }

  /** One more needs what is in it. */
  hold(): void {
    this.enter('held');
    this.#holders += 1;
  }

  /** One of those who need it no longer does. */
  letGo(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.enter('freed');
  }

  /** Moves to `next`. Returns false and does nothing if the move is not allowed. */
  enter(next: SlotState): boolean {
    if (!SLOT_TRANSITIONS[this.#state].includes(next)) return false;
    this.#state = next;
    if (next === 'freed') this.#onFreed(this);
    return true;
  }
}

/** Slots begin and end at pages, so that two of them share no memory. */
const PAGE = 4096;
/** How long no slot must be taken before the memory of all goes back to the system, in ms. */
const IDLE_MS = 5000;

export class Slots {
  readonly file: SlotFile;
  readonly #clock: Clock;
  /** What no slot takes, in order, without neighbours that touch. */
  #free: Extent[];
  readonly size: number;
  #taken = 0;
  #takenBytes = 0;
  /** Number of slots so far, and that at the last look for quiet; null: the file is empty. */
  #count = 0;
  #seen: number | null = null;
  #looking: Timer | null = null;

  /** @param bytes most bytes of the file */
  constructor(file: SlotFile, bytes: number, clock: Clock) {
    this.file = file;
    this.#clock = clock;
    this.size = Math.floor(bytes / PAGE) * PAGE;
    this.#free = this.size > 0 ? [{ at: 0, bytes: this.size }] : [];
  }

  /** Number of slots that are not free. */
  get taken(): number {
    return this.#taken;
  }

  /** Whether less than half of the memory is taken. */
  get hasPlenty(): boolean {
    return this.#takenBytes < this.size / 2;
  }

  /** The parts of the file that no slot takes. */
  get free(): readonly Extent[] {
    return this.#free;
  }

  /** Returns a slot of at least so many bytes, at the lowest place, so that the file stays short; null: there is no room. */
  take(bytes: number): SharedSlot | null {
    const needed = Math.ceil(bytes / PAGE) * PAGE;
    const index = this.#free.findIndex((extent) => extent.bytes >= needed);
    const extent = this.#free[index];
    if (!extent || needed === 0) return null;
    const rest = { at: extent.at + needed, bytes: extent.bytes - needed };
    this.#free.splice(index, 1, ...(rest.bytes > 0 ? [rest] : []));
    this.#taken += 1;
    this.#takenBytes += needed;
    this.#count += 1;
    if (this.#seen === null) this.#look();
    return new SharedSlot({ at: extent.at, bytes: needed }, (slot) => this.#putBack(slot));
  }

  /** Closes the file. */
  close(): void {
    this.#looking?.cancel();
    this.file.close();
  }

  #putBack({ at, bytes }: Extent): void {
    this.#taken -= 1;
    this.#takenBytes -= bytes;
    const index = this.#free.findIndex((extent) => extent.at > at);
    const position = index < 0 ? this.#free.length : index;
    const [before, after] = [this.#free[position - 1], this.#free[position]];
    const joinsBefore = before !== undefined && before.at + before.bytes === at;
    const joinsAfter = after !== undefined && at + bytes === after.at;
    const start = joinsBefore ? before.at : at;
    const end = joinsAfter ? after.at + after.bytes : at + bytes;
    const first = joinsBefore ? position - 1 : position;
    this.#free.splice(first, (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0), { at: start, bytes: end - start });
  }

  /** Empties the file when no slot has been taken for a while. */
  #look(): void {
    this.#seen = this.#count;
    this.#looking = this.#clock.at(this.#clock.now() + IDLE_MS, () => {
      if (this.#taken > 0 || this.#count !== this.#seen) {
        this.#look();
        return;
      }
      this.#seen = null;
      this.file.empty();
    });
  }
}
