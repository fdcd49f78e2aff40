/**
 * The bytes of a payload that stay in a slot until this process reads them. It usually does not: the worker of the next
 * stage gets the place, and reads them from there.
 *
 *   held   in the slot                              -> read | gone
 *   read   in the memory of this process, which `Chunks` frees or leaves to V8
 *   gone   nothing needs them any more
 */
import type { ChunkedBytes } from '../../core/model.ts';
import { Chunks } from '../codec/chunks.ts';
import type { SlotFile } from './slot-file.ts';

/** Memory that stays as it is until all who need it have let go. */
export interface Holdable {
  hold(): void;
  letGo(): void;
}

/** A place in a slot. */
export interface HeldPlace {
  readonly slot: Holdable;
  readonly file: SlotFile;
  readonly at: number;
}

type State =
  | ({ readonly tag: 'held' } & HeldPlace)
  | { readonly tag: 'read'; readonly chunks: Chunks }
  | { readonly tag: 'gone' };

interface Hold {
  readonly slot: Holdable;
  readonly length: number;
}

/** No code frees a payload that is dropped on the way: V8 tells when it has forgotten it. */
const forgotten = new FinalizationRegistry<Hold>(letGo);

let held = 0;

/** Bytes in slots that the payloads of this process hold, those that were dropped included: V8 does not count them. */
export function heldBytes(): number {
  return held;
}

function letGo({ slot, length }: Hold): void {
  held -= length;
  slot.letGo();
}

export class HeldBytes implements ChunkedBytes {
  readonly length: number;
  #state: State;

  constructor(place: HeldPlace, length: number) {
    this.length = length;
    this.#state = { tag: 'held', ...place };
    place.slot.hold();
    held += length;
    forgotten.register(this, { slot: place.slot, length }, this);
  }

  /** Where other processes find the bytes; null: this process has read them. */
  get place(): HeldPlace | null {
    return this.#state.tag === 'held' ? this.#state : null;
  }

  get list(): readonly Buffer[] {
    return this.#read().list;
  }

  get lent(): readonly Buffer[] {
    return this.#read().lent;
  }

  get bytes(): Buffer {
    return this.#read().bytes;
  }

  /** Reads them, so that the slot goes back now: later readers do not tell when they have read. */
  share(): void {
    this.#read().share();
  }

  free(): void {
    if (this.#state.tag === 'read') this.#state.chunks.free();
    else if (this.#state.tag === 'held') {
      const { slot } = this.#state;
      this.#state = { tag: 'gone' };
      this.#letGo(slot);
    }
  }

  /** @throws Error if they are gone */
  #read(): Chunks {
    if (this.#state.tag === 'gone') throw new Error('the memory of these bytes has been freed');
    if (this.#state.tag === 'read') return this.#state.chunks;
    const { file, at, slot } = this.#state;
    const chunks = new Chunks([file.read(at, this.length)]);
    this.#state = { tag: 'read', chunks };
    this.#letGo(slot);
    return chunks;
  }

  #letGo(slot: Holdable): void {
    forgotten.unregister(this);
    letGo({ slot, length: this.length });
  }
}
