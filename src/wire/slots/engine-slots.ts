/**
 * The engine's end of the channel to Node-RED's process, which lends a slot to each large request: its payload is there,
 * until a worker has read it there, and its outcome goes there. An outcome that is in a slot of the engine's own file stays,
 * and Node-RED's process reads it there.
 *
 * The slot of a request goes back by a `freed` frame, when the request has its outcome or is cancelled, and no worker may
 * read it any more. Node-RED's process says the same of the engine's slots.
 */
import type { ChunkedBytes } from '../../core/model.ts';
import type { Frame } from '../frames/frames.ts';
import { malformed, OTHER, type WireItem } from '../frames/items.ts';
import { HeldBytes, type Holdable } from './held-bytes.ts';
import { type SlotChannel, written } from './slot-channel.ts';
import { LENT_FD, OTHER_FD, SlotFile } from './slot-file.ts';
import type { Extent } from './slots.ts';

export class EngineSlots implements SlotChannel {
  /** The file of Node-RED's process. */
  readonly #requests: SlotFile;
  readonly #answersFd: number;
  readonly #onBytes: (count: number) => void;
  readonly #send: (frame: Frame) => void;
  /** By the number of the request. */
  readonly #open: Map<number, RequestSlot> = new Map();
  /** Slots with outcomes that Node-RED's process has not read yet. */
  readonly #handed: Map<number, Holdable> = new Map();
  /** Numbers of requests whose slots go back with the next frame. */
  #freed: number[] = [];
  #isInFrame = false;
  isIdle = true;

  /**
   * @param onBytes called with the bytes of payloads that are about to be written
   * @param send sends a frame at any time
   */
  constructor(
    onBytes: (count: number) => void,
    send: (frame: Frame) => void,
    { requestsFd = LENT_FD, answersFd = OTHER_FD } = {},
  ) {
    this.#onBytes = onBytes;
    this.#send = send;
    this.#requests = new SlotFile(requestsFd);
    this.#answersFd = answersFd;
  }

  outgoing(frame: Frame): readonly Frame[] {
    if (frame.type !== 'outcomes') return [frame];
    const places = new Map<WireItem, number>();
    const freed = this.#collected(() => {
      for (const item of frame.items) {
        const at = this.#handedOn(item) ?? this.#written(item);
        if (at !== null) places.set(item, at);
        this.#end(item.id);
      }
    });
    this.isIdle = this.#open.size === 0;
    const sent = places.size > 0 ? { ...frame, places } : frame;
    return freed ? [sent, freed] : [sent];
  }

  /** The bytes stay in the slot, see `HeldBytes`. */
  read(id: number, at: number | null, length: number): ChunkedBytes {
    const place = at ?? 0;
    if (!this.#requests.reaches(place + length)) throw malformed('a payload that is not in its slot');
    const slot = new RequestSlot(() => this.#wasFreed(id));
    this.#open.set(id, slot);
    this.isIdle = false;
    slot.payload = new HeldBytes({ slot, file: this.#requests, at: place }, length);
    return slot.payload;
  }

  received(frame: Frame): Frame | null {
    if (frame.type === 'submit' && frame.room) {
      const { id } = frame.items[0] as WireItem;
      const slot = this.#open.get(id) ?? new RequestSlot(() => this.#wasFreed(id));
      slot.room = frame.room;
      this.#open.set(id, slot);
      this.isIdle = false;
    } else if (frame.type === 'freed') {
      for (const id of frame.body) {
        this.#handed.get(id)?.letGo();
        this.#handed.delete(id);
      }
    } else if (frame.type === 'cancel' && this.#open.size > 0) {
      return this.#collected(() => {
        for (const id of frame.body) this.#end(id);
      });
    }
    return null;
  }

  /** Leaves an outcome where it is, if Node-RED's process can read it there. Returns its place, or null. */
  #handedOn({ id, payload }: WireItem): number | null {
    const place = payload.chunks instanceof HeldBytes ? payload.chunks.place : null;
    if (place?.file.fd !== this.#answersFd) return null;
    place.slot.hold();
    this.#handed.set(id, place.slot);
    payload.chunks?.free();
    return OTHER + place.at;
  }

  /** Writes an outcome to the slot of its request, if it has room. Returns its place, or null. */
  #written(item: WireItem): number | null {
    const slot = this.#open.get(item.id);
    if (!slot?.room || slot.isRead) return null;
    return written(this.#requests, [item], slot.room, this.#onBytes)?.get(item) ?? null;
  }

  #end(id: number): void {
    const slot = this.#open.get(id);
    this.#open.delete(id);
    slot?.end();
  }

  /** Returns a frame with the numbers of all requests whose slots are freed meanwhile; null: no slot is. */
  #collected(during: () => void): Frame | null {
    this.#isInFrame = true;
    during();
    this.#isInFrame = false;
    const body = this.#freed;
    this.#freed = [];
    return body.length > 0 ? { type: 'freed', body } : null;
  }

  #wasFreed(id: number): void {
    if (this.#isInFrame) this.#freed.push(id);
    else this.#send({ type: 'freed', body: [id] });
  }
}

/** The slot of a request, as long as the request is open or a worker may read its payload. */
class RequestSlot implements Holdable {
  readonly #onFreed: () => void;
  #holders = 1;
  room: Extent | null = null;
  /** Null: it has only room for the outcome. */
  payload: HeldBytes | null = null;

  constructor(onFreed: () => void) {
    this.#onFreed = onFreed;
  }

  /** Whether a worker may read the payload. */
  get isRead(): boolean {
    return this.#holders > (this.payload?.place ? 2 : 1);
  }

  hold(): void {
    this.#holders += 1;
  }

  letGo(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.#onFreed();
  }

  /** The request is not open any more, so no worker begins to read its payload. */
  end(): void {
    if (this.payload?.place) this.payload.free();
    this.letGo();
  }
}
