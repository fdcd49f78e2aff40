/**
 * The large payloads of requests and batches, and of what answers them, beside their frames: the frame only says where in
 * the slot file they are. A request to an engine, and a batch to a worker, has one slot. Its inputs are at the slot's
 * beginning, and its results take their place, or that of results like the last ones. What has no room travels in the
 * frame.
 *
 * A result that its owner keeps in its slot is handed on: the next batch that has it says where it is. Such a slot takes no
 * results, because its bytes may be needed again if a worker dies.
 */
import type { ChunkedBytes } from '../../core/model.ts';
import { byteLengthOf } from '../codec/chunks.ts';
import { padded } from '../codec/sizes.ts';
import { type Frame, needsSlot, SLOT_FROM } from '../frames/frames.ts';
import { malformed, OTHER, type SlotPlaces, type WireItem } from '../frames/items.ts';
import { HeldBytes, type HeldPlace, type Holdable } from './held-bytes.ts';
import { placed, readFrom, roomFor, type SlotChannel } from './slot-channel.ts';
import type { SlotFile } from './slot-file.ts';
import type { Extent, SharedSlot, Slots } from './slots.ts';

/** Most bytes of a slot. Copying more at once would hold up the event loop; the socket takes it piece by piece. */
const MOST_BYTES = 16 * 1024 * 1024;
/** Weight that the size of earlier results keeps at each new one. */
const KEPT = 0.9;
/** Stands for the route of batches: what a worker answers is always of one stage. */
const NO_ROUTE = -1;

type SlottedSubmit = Extract<Frame, { type: 'submit' }>;

/** The slots that a child needs for a batch or a request. */
interface Loan {
  /** Takes the results. */
  readonly own: SharedSlot | null;
  /** Of inputs that are handed on. */
  readonly handed: readonly Holdable[];
}

/** An input that the child reads where it is. */
type Handed = Pick<HeldPlace, 'slot' | 'at'>;

/** A loan as the frame says it. */
interface Lent {
  readonly places: SlotPlaces;
  readonly room: Extent | null;
}

export interface ParentOptions {
  /** Called when there is no room for a batch or a request, or no memory. */
  onFull(): void;
  /** Whether results stay in their slots for the batches of other children, as long as there is much room. Default: no. */
  readonly keepsResults?: boolean;
  /** The file that the child has besides the one with the slots, and only reads; absent or null: none. */
  readonly other?: SlotFile | null;
}

/** The end of the process that owns the slots, for one child. */
export class ParentSlots implements SlotChannel {
  readonly #slots: Slots;
  readonly #onFull: () => void;
  readonly #keepsResults: boolean;
  readonly #other: SlotFile | null;
  /** Numbers of the requests whose outcomes this process has read in the other file. */
  #readThere: number[] = [];
  /** What the child has, by the number of the batch or the request. */
  readonly #lent: Map<number, Loan> = new Map();
  /** Whether the child has said that it can use slots. */
  #isUsed = false;
  /** Bytes of one result, as the last ones of a route were; absent: they were small. */
  readonly #resultBytes: Map<number, number> = new Map();
  isIdle = true;

  constructor(slots: Slots, { onFull, keepsResults = false, other = null }: ParentOptions) {
    this.#slots = slots;
    this.#onFull = onFull;
    this.#keepsResults = keepsResults;
    this.#other = other;
  }

  /** File descriptors that the child gets, see slot-file.ts. */
  get fds(): readonly number[] {
    return [this.#slots.file, ...(this.#other ? [this.#other] : [])].map(({ fd }) => fd);
  }

  outgoing(frame: Frame): readonly Frame[] {
    if (!this.#isUsed) return [frame];
    if (frame.type === 'submit') return this.#requests(frame);
    if (frame.type !== 'batch') return [frame];
    const results = (this.#resultBytes.get(NO_ROUTE) ?? 0) * frame.items.length;
    const lent = this.#lend(frame.batch, frame.items, results, this.#handedOn(frame.items));
    return [lent ? { ...frame, ...lent } : frame];
  }

  read(loan: number, at: number | null, length: number): ChunkedBytes {
    if (this.#other && at !== null && at >= OTHER) {
      this.#readThere.push(loan);
      return readFrom(this.#other, at - OTHER, length);
    }
    const slot = this.#lent.get(loan)?.own;
    const place = at ?? slot?.at ?? 0;
    if (!slot || place < slot.at || place + length > slot.at + slot.bytes) {
      throw malformed('a payload outside of its slot');
    }
    const { file, hasPlenty } = this.#slots;
    if (!this.#keepsResults || !hasPlenty) return readFrom(file, place, length);
    if (!file.reaches(place + length)) throw malformed('a payload that is not in its slot');
    return new HeldBytes({ slot, file, at: place }, length);
  }

  received(frame: Frame): Frame | null {
    if (frame.type === 'report' && frame.body.slots) this.#isUsed = true;
    else if (frame.type === 'reply') {
      this.#expect(
        NO_ROUTE,
        frame.items.reduce((most, { ok, payload }) => (ok ? Math.max(most, byteLengthOf(payload)) : most), 0),
      );
      this.#giveBack(frame.batch);
    } else if (frame.type === 'outcomes') return this.#answered(frame.items);
    else if (frame.type === 'freed') for (const id of frame.body) this.#giveBack(id);
    return null;
  }

  #answered(items: readonly WireItem[]): Frame | null {
    const there = this.#readThere.splice(0);
    for (const { id, ok, routeRef, payload } of items) {
      // A result that is in the other file needs no room in this one.
      if (ok) this.#expect(routeRef, there.includes(id) ? 0 : byteLengthOf(payload));
    }
    return there.length > 0 ? { type: 'freed', body: there } : null;
  }

  /** The child has ended: it can write nothing any more. */
  end(): void {
    for (const loan of [...this.#lent.keys()]) this.#giveBack(loan);
  }

  /** Gives each request with a slot a separate frame. The order stays as it is. */
  #requests(frame: SlottedSubmit): readonly Frame[] {
    if (this.#resultBytes.size === 0 && !frame.items.some(needsSlot)) return [frame];
    const frames: Frame[] = [];
    let others: WireItem[] = [];
    const leave = (): void => {
      if (others.length > 0) frames.push({ type: 'submit', items: others });
      others = [];
    };
    for (const item of frame.items) {
      const lent = this.#lend(item.id, [item], this.#resultBytes.get(item.routeRef) ?? 0, new Map());
      if (lent) {
        leave();
        frames.push({ type: 'submit', items: [item], ...lent });
      } else others.push(item);
    }
    leave();
    return frames;
  }

  /** Returns the items whose payloads the child can read where they are. */
  #handedOn(items: readonly WireItem[]): ReadonlyMap<WireItem, Handed> {
    const handed = new Map<WireItem, Handed>();
    for (const item of items) {
      const { chunks } = item.payload;
      const place = chunks instanceof HeldBytes ? chunks.place : null;
      if (place?.file.fd === this.#slots.file.fd) handed.set(item, place);
      else if (place && place.file.fd === this.#other?.fd) handed.set(item, { slot: place.slot, at: OTHER + place.at });
    }
    return handed;
  }

  /**
   * Writes the large ones of the items to a slot for them and their results, but for those that are handed on. Returns null
   * if the frame has all items.
   */
  #lend(loan: number, items: readonly WireItem[], results: number, handed: ReadonlyMap<WireItem, Handed>): Lent | null {
    const large = items.filter((item) => needsSlot(item) && !handed.has(item));
    const inputs = roomFor(large);
    const needed = results <= MOST_BYTES ? Math.max(inputs, results) : inputs;
    const own = needed === 0 || inputs > MOST_BYTES ? null : this.#filled(large, needed, inputs);
    if (!own && handed.size === 0) return null;
    for (const { slot } of handed.values()) slot.hold();
    this.isIdle = false;
    this.#lent.set(loan, { own: own?.slot ?? null, handed: [...handed.values()].map(({ slot }) => slot) });
    const places = new Map([...handed].map(([item, { at }]) => [item, at] as const));
    for (const [item, at] of own?.places ?? []) places.set(item, at);
    return { places, room: own?.slot ?? null };
  }

  /** Takes a slot for inputs and results, or only for the inputs, and writes those. Returns null if there is no memory. */
  #filled(
    inputs: readonly WireItem[],
    needed: number,
    least: number,
  ): { readonly slot: SharedSlot; readonly places: SlotPlaces } | null {
    const slot = this.#slots.take(needed) ?? this.#slots.take(least);
    const places = slot && placed(this.#slots.file, inputs, slot);
    if (slot && places) {
      slot.enter('sent');
      return { slot, places };
    }
    slot?.letGo();
    this.#onFull();
    return null;
  }

  #expect(route: number, bytes: number): void {
    if (bytes < SLOT_FROM && this.#resultBytes.size === 0) return;
    const expected = Math.max(bytes, (this.#resultBytes.get(route) ?? 0) * KEPT);
    if (expected >= SLOT_FROM) this.#resultBytes.set(route, padded(Math.round(expected)));
    else this.#resultBytes.delete(route);
    this.#rest();
  }

  /** Notes whether nothing is lent, and no large result is expected. */
  #rest(): void {
    this.isIdle = this.#lent.size === 0 && this.#resultBytes.size === 0;
  }

  #giveBack(loan: number): void {
    const lent = this.#lent.get(loan);
    this.#lent.delete(loan);
    lent?.own?.letGo();
    for (const slot of lent?.handed ?? []) slot.letGo();
    this.#rest();
  }
}
