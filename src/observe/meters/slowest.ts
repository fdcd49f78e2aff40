/**
 * The slowest requests of the last minutes. Time is cut into slots, each with its own slowest: memory is bounded
 * whatever comes, nearly every request costs two comparisons, and what is old is forgotten slot by slot.
 */

/** Requests that are shown. */
export const KEPT = 20;
/** Requests that settled longer ago are not shown. */
export const WINDOW_MS = 300_000;
/** A slot is forgotten as a whole, when its first request becomes too old: so many ms are missing at the most. */
export const SLOT_MS = 15_000;

interface Entry<Request> {
  readonly at: number;
  readonly totalMs: number;
  readonly request: Request;
}

interface Slot<Request> {
  readonly startedAt: number;
  /** At most `KEPT`, the quickest first. */
  readonly entries: Entry<Request>[];
}

export class Slowest<Request> {
  /** The oldest first. */
  #slots: Slot<Request>[] = [];
  /** From when on a request belongs to a new slot. */
  #slotEndsAt = Number.NEGATIVE_INFINITY;
  /** What a request must have taken longer than to be among the slowest of its slot. */
  #floorMs = Number.POSITIVE_INFINITY;

  /** Whether a request that settled `at` is to be added: to be asked first, `add` needs more of the request. */
  accepts(at: number, totalMs: number): boolean {
    return totalMs > this.#floorMs || at >= this.#slotEndsAt;
  }

  /** `at` never goes back from one call to the next. */
  add(at: number, totalMs: number, request: Request): void {
    const { entries } = this.#slotAt(at);
    const place = entries.findIndex((other) => other.totalMs >= totalMs);
    entries.splice(place < 0 ? entries.length : place, 0, { at, totalMs, request });
    if (entries.length > KEPT) entries.shift();
    this.#floorMs = entries.length < KEPT ? Number.NEGATIVE_INFINITY : (entries[0]?.totalMs ?? 0);
  }

  /** The slowest first. */
  list(now: number): readonly Entry<Request>[] {
    this.#forget(now);
    const entries = this.#slots.flatMap((slot) => slot.entries);
    return entries.sort((a, b) => b.totalMs - a.totalMs || b.at - a.at).slice(0, KEPT);
  }

  #slotAt(at: number): Slot<Request> {
    const last = this.#slots.at(-1);
    if (last && at < this.#slotEndsAt) return last;
    this.#forget(at);
    const slot: Slot<Request> = { startedAt: at, entries: [] };
    this.#slots.push(slot);
    this.#slotEndsAt = at + SLOT_MS;
    return slot;
  }

  #forget(now: number): void {
    this.#slots = this.#slots.filter((slot) => slot.startedAt >= now - WINDOW_MS);
  }
}
