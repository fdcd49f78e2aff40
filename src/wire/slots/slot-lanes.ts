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
import { byteLengthOf, Chunks, lentChunksOf } from '../codec/chunks.ts';
import { padded, padding } from '../codec/sizes.ts';
import type { Frame } from '../frames/frames.ts';
import { malformed, type SlotPlaces, type WireItem } from '../frames/items.ts';
import { HeldBytes, type HeldPlace, type Holdable } from './held-bytes.ts';
import { SLOT_FROM, SLOTS_FD, SlotFile } from './slot-file.ts';
import type { Extent, SharedSlot, Slots } from './slots.ts';

/** The part of a channel that moves payloads from frames to slots, and back. */
export interface SlotChannel {
  /** Returns the frames to send in place of one. */
  outgoing(frame: Frame): readonly Frame[];
  /** Returns the bytes of a frame that has come, see `ReadSlot`. @throws ModeletError `protocol_error` */
  read(loan: number, at: number | null, length: number): ChunkedBytes;
  /** All payloads of the frame have been read. Returns what to say about that; null: nothing. */
  received(frame: Frame): Frame | null;
}

/** Most bytes of a slot. Copying more at once would hold up the event loop; the socket takes it piece by piece. */
const MOST_BYTES = 16 * 1024 * 1024;
/** Weight that the size of earlier results keeps at each new one. */
const KEPT = 0.9;
/** Stands for the route of batches: what a worker answers is always of one stage. */
const NO_ROUTE = -1;

type SlottedSubmit = Extract<Frame, { type: 'submit' }>;
type SlottedOutcomes = Extract<Frame, { type: 'outcomes' }>;
type SlottedReply = Extract<Frame, { type: 'reply' }>;

/** The slots that a child needs for a batch or a request. */
interface Loan {
  /** Takes the results. */
  readonly own: SharedSlot | null;
  /** Of inputs that are handed on. */
  readonly handed: readonly Holdable[];
}

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
}

/** The end of the process that owns the slots, for one child. */
export class ParentSlots implements SlotChannel {
  readonly #slots: Slots;
  readonly #onFull: () => void;
  readonly #keepsResults: boolean;
  /** What the child has, by the number of the batch or the request. */
  readonly #lent: Map<number, Loan> = new Map();
  /** Whether the child has said that it can use slots. */
  #isUsed = false;
  /** Bytes of one result, as the last ones of a route were; absent: they were small. */
  readonly #resultBytes: Map<number, number> = new Map();

  constructor(slots: Slots, { onFull, keepsResults = false }: ParentOptions) {
    this.#slots = slots;
    this.#onFull = onFull;
    this.#keepsResults = keepsResults;
  }

  get fd(): number {
    return this.#slots.file.fd;
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

  received(frame: Frame): null {
    if (frame.type === 'report' && frame.body.slots) this.#isUsed = true;
    else if (frame.type === 'reply') {
      this.#expect(
        NO_ROUTE,
        frame.items.reduce((most, { ok, payload }) => (ok ? Math.max(most, byteLengthOf(payload)) : most), 0),
      );
      this.#giveBack(frame.batch);
    } else if (frame.type === 'outcomes') {
      for (const { id, ok, routeRef, payload } of frame.items) {
        if (ok) this.#expect(routeRef, byteLengthOf(payload));
        this.#giveBack(id);
      }
    } else if (frame.type === 'freed') for (const id of frame.body) this.#giveBack(id);
    return null;
  }

  /** The child has ended: it can write nothing any more. */
  end(): void {
    for (const loan of [...this.#lent.keys()]) this.#giveBack(loan);
  }

  /** Gives each request with a slot a separate frame. The order stays as it is. */
  #requests(frame: SlottedSubmit): readonly Frame[] {
    if (this.#resultBytes.size === 0 && !frame.items.some(isLarge)) return [frame];
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

  /** Returns the items whose payloads are in slots of this owner. */
  #handedOn(items: readonly WireItem[]): ReadonlyMap<WireItem, HeldPlace> {
    const handed = new Map<WireItem, HeldPlace>();
    for (const item of items) {
      const { chunks } = item.payload;
      const place = chunks instanceof HeldBytes ? chunks.place : null;
      if (place?.file === this.#slots.file) handed.set(item, place);
    }
    return handed;
  }

  /**
   * Writes the large ones of the items to a slot for them and their results, but for those that are handed on. Returns null
   * if the frame has all items.
   */
  #lend(
    loan: number,
    items: readonly WireItem[],
    results: number,
    handed: ReadonlyMap<WireItem, HeldPlace>,
  ): Lent | null {
    const large = items.filter((item) => isLarge(item) && !handed.has(item));
    const inputs = bytesOf(large);
    const needed = results <= MOST_BYTES ? Math.max(inputs, results) : inputs;
    const own = needed === 0 || inputs > MOST_BYTES ? null : this.#filled(large, needed, inputs);
    if (!own && handed.size === 0) return null;
    for (const { slot } of handed.values()) slot.hold();
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
  }

  #giveBack(loan: number): void {
    if (this.#lent.size === 0) return;
    const lent = this.#lent.get(loan);
    this.#lent.delete(loan);
    lent?.own?.letGo();
    for (const slot of lent?.handed ?? []) slot.letGo();
  }
}

/** The end of a child, which uses the slots that its parent lends it. */
export class ChildSlots implements SlotChannel {
  readonly #file: SlotFile;
  readonly #onBytes: (count: number) => void;
  /** The slots of what has not been answered, by the number of the batch or the request. */
  readonly #rooms: Map<number, Extent> = new Map();

  /** @param onBytes called with the bytes of payloads that have been read, or are about to be written */
  constructor(onBytes: (count: number) => void, fd: number = SLOTS_FD) {
    this.#file = new SlotFile(fd);
    this.#onBytes = onBytes;
  }

  outgoing(frame: Frame): readonly Frame[] {
    if (this.#rooms.size === 0) return [frame];
    if (frame.type === 'reply') return [this.#reply(frame)];
    return [frame.type === 'outcomes' ? this.#outcomes(frame) : frame];
  }

  read(_loan: number, at: number | null, length: number): ChunkedBytes {
    this.#onBytes(length);
    return readFrom(this.#file, at ?? 0, length);
  }

  /** Gives the slots of cancelled requests back: a result that comes later travels in its frame. */
  received(frame: Frame): Frame | null {
    if (frame.type === 'batch' && frame.room) this.#rooms.set(frame.batch, frame.room);
    if (frame.type === 'submit' && frame.room) this.#rooms.set((frame.items[0] as WireItem).id, frame.room);
    if (frame.type !== 'cancel' || this.#rooms.size === 0) return null;
    const freed = frame.body.filter((id) => this.#rooms.delete(id));
    return freed.length > 0 ? { type: 'freed', body: freed } : null;
  }

  #reply(frame: SlottedReply): Frame {
    const places = this.#placed(frame.batch, frame.items);
    return places ? { ...frame, places } : frame;
  }

  #outcomes(frame: SlottedOutcomes): Frame {
    const places = new Map(frame.items.flatMap((item) => [...(this.#placed(item.id, [item]) ?? [])]));
    return places.size > 0 ? { ...frame, places } : frame;
  }

  /** Writes what has room to the slot, which goes back with the frame. */
  #placed(loan: number, items: readonly WireItem[]): SlotPlaces | null {
    const room = this.#rooms.get(loan);
    if (!room) return null;
    this.#rooms.delete(loan);
    let left = room.bytes;
    const fitting = items.filter((item) => {
      const bytes = isLarge(item) ? padded(byteLengthOf(item.payload)) : Number.POSITIVE_INFINITY;
      if (bytes > left) return false;
      left -= bytes;
      return true;
    });
    if (fitting.length === 0) return null;
    this.#onBytes(room.bytes - left);
    const places = placed(this.#file, fitting, room);
    // A child reads no result again that it has sent.
    if (places) for (const { payload } of fitting) payload.chunks?.free();
    return places;
  }
}

function isLarge({ payload }: WireItem): boolean {
  return byteLengthOf(payload) >= SLOT_FROM;
}

function bytesOf(items: readonly WireItem[]): number {
  return items.reduce((sum, { payload }) => sum + padded(byteLengthOf(payload)), 0);
}

/** Writes the payloads of the items to the beginning of a room. Returns their places, or null if there is no memory. */
function placed(file: SlotFile, items: readonly WireItem[], { at }: Extent): SlotPlaces | null {
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

function readFrom(file: SlotFile, at: number, length: number): Chunks {
  try {
    return new Chunks([file.read(at, length)]);
  } catch (thrown) {
    throw malformed(`a payload cannot be read from its slot: ${(thrown as Error).message}`);
  }
}
