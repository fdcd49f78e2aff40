/**
 * The lane of a channel for large frames. It sends them one after another in pieces, and writes a piece only after the
 * previous piece has left this process. All other frames overtake them, and wait for one piece at most.
 *
 * Frames about the same request keep their order. Frames about everything before them, such as `close`, also keep their
 * order: they queue behind the frames that wait here.
 */
import type { RequestNumber } from '../../core/model.ts';
import { byteLengthOf } from '../codec/chunks.ts';
import { encodeFrame, type Frame, HEAD, type ItemFrame, isLargeFrame, pieceHead } from '../frames/frames.ts';
import type { WireItem } from '../frames/items.ts';

/** Size of a piece without its head, in bytes; a multiple of 8. */
const PIECE = 256 * 1024;

/** Types of frames about everything that was sent before them. */
const FOLLOWS_ALL: ReadonlySet<Frame['type']> = new Set([
  'act',
  'batch',
  'close',
  'reply',
  'report',
  'tried',
  'try',
] as const);
/** Types of item frames of which one request may have several. */
const FOLLOWS_ITS_REQUEST: ReadonlySet<Frame['type']> = new Set(['outcomes', 'parts', 'taps'] as const);

/** Writes the buffers in order. Calls `onLeft` when they have left this process. */
export type Write = (parts: readonly Uint8Array[], onLeft: () => void) => void;

interface WaitingFrame {
  readonly frame: Frame;
  /** Rest of the frame that has not been written; null before its first piece. */
  cut: Cut | null;
  /** Callbacks for when the whole frame has been written. */
  readonly onWritten: (() => void)[];
}

export class BulkLane {
  readonly #write: Write;
  #waiting: WaitingFrame[] = [];
  /** Number of waiting items, by request. */
  readonly #requests: Map<RequestNumber, number> = new Map();
  #bytes = 0;
  /** Whether a piece has been written but has not left this process. */
  #isWriting = false;

  constructor(write: Write) {
    this.#write = write;
  }

  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** Payload bytes of the frames that have not been fully written. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Items of the frames that have not been fully written. */
  get items(): WireItem[] {
    return this.#waiting.flatMap(({ frame }) => ('items' in frame ? frame.items : []));
  }

  /**
   * Queues the part of the frame that belongs in the lane, or has to follow a frame that waits there. Returns the rest, to be
   * sent at once, or null if none.
   */
  take(frame: Frame): Frame | null {
    const isLarge = isLargeFrame(frame);
    if (!isLarge && !this.isWaiting) return frame;
    if (isLarge || FOLLOWS_ALL.has(frame.type)) {
      this.#push(frame);
      return null;
    }
    if (frame.type === 'cancel') return this.#cancel(frame.body);
    return 'items' in frame && FOLLOWS_ITS_REQUEST.has(frame.type) ? this.#split(frame) : frame;
  }

  /** Calls `call` when all frames that wait now have been written, or at once if none waits. */
  afterAll(call: () => void): void {
    const last = this.#waiting.at(-1);
    if (last) last.onWritten.push(call);
    else call();
  }

  clear(): void {
    this.#waiting = [];
    this.#requests.clear();
    this.#bytes = 0;
  }

  #push(frame: Frame, index: number = this.#waiting.length): void {
    this.#waiting.splice(index, 0, { frame, cut: null, onWritten: [] });
    this.#count(frame, 1);
    this.#next();
  }

  /**
   * Drops a cancelled request whose frame has not begun to leave. If it has, queues the cancel behind the frame.
   * Returns a cancel for the requests that are not in the lane, or null.
   */
  #cancel(ids: readonly RequestNumber[]): Frame | null {
    const elsewhere = ids.filter((id) => !this.#requests.has(id));
    for (const id of ids) {
      if (!this.#requests.has(id)) continue;
      const index = this.#waiting.findIndex(({ frame }) => isSubmitOf(frame, id));
      if (this.#waiting[index]?.cut === null) this.#remove(index);
      else this.#push({ type: 'cancel', body: [id] }, index + 1 || this.#waiting.length);
    }
    return elsewhere.length > 0 ? { type: 'cancel', body: elsewhere } : null;
  }

  #split(frame: ItemFrame): Frame | null {
    const behind = frame.items.filter(({ id }) => this.#requests.has(id));
    if (behind.length === 0) return frame;
    const rest = frame.items.filter(({ id }) => !this.#requests.has(id));
    this.#push({ ...frame, items: behind });
    return rest.length > 0 ? { ...frame, items: rest } : null;
  }

  #next(): void {
    const first = this.#waiting[0];
    if (this.#isWriting || !first) return;
    this.#isWriting = true;
    first.cut ??= new Cut(encodeFrame(first.frame));
    const parts = first.cut.next();
    if (first.cut.isDone) this.#remove(0);
    this.#write(parts, () => {
      this.#isWriting = false;
      this.#next();
    });
    if (first.cut.isDone) for (const call of first.onWritten) call();
  }

  #remove(index: number): void {
    const [removed] = this.#waiting.splice(index, 1) as [WaitingFrame];
    this.#count(removed.frame, -1);
    // Callbacks of a frame that is removed unwritten move to the frame before it.
    if (removed.cut === null) {
      const before = this.#waiting[index - 1];
      if (before) before.onWritten.push(...removed.onWritten);
      else for (const call of removed.onWritten) call();
    }
  }

  #count(frame: Frame, by: 1 | -1): void {
    if (!('items' in frame)) return;
    for (const { id, payload } of frame.items) {
      this.#bytes += by * byteLengthOf(payload);
      const count = (this.#requests.get(id) ?? 0) + by;
      if (count > 0) this.#requests.set(id, count);
      else this.#requests.delete(id);
    }
  }
}

function isSubmitOf(frame: Frame, id: RequestNumber): boolean {
  return frame.type === 'submit' && frame.items[0]?.id === id;
}

/** An encoded frame that is written in pieces, or whole if it fits in one. */
class Cut {
  readonly #parts: Uint8Array[];
  readonly #total: number;
  #left: number;

  constructor(parts: Uint8Array[]) {
    this.#parts = parts;
    this.#total = parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.#left = this.#total;
  }

  get isDone(): boolean {
    return this.#left === 0;
  }

  next(): Uint8Array[] {
    if (this.#total <= PIECE) {
      this.#left = 0;
      return this.#parts;
    }
    const length = Math.min(PIECE, this.#left);
    this.#left -= length;
    return [pieceHead(HEAD + length, this.#total), ...this.#takeBytes(length)];
  }

  #takeBytes(length: number): Uint8Array[] {
    const taken: Uint8Array[] = [];
    for (let left = length; left > 0; ) {
      const part = this.#parts[0] as Uint8Array;
      taken.push(part.subarray(0, left));
      if (part.byteLength <= left) this.#parts.shift();
      else this.#parts[0] = part.subarray(left);
      left -= Math.min(left, part.byteLength);
    }
    return taken;
  }
}
