/**
 * Remembers how much a gate had in flight, and when. A measurement is older than now by an unknown time within a known
 * bound, so it includes some of the gate's own requests. It certainly includes the lowest level in flight within that
 * bound.
 *
 * Changes close together are merged into one span with their lowest level. The result may then be too low, so the gate
 * may admit less, but never more.
 */

interface Span {
  readonly from: number;
  /** Changes before this time belong to this span. */
  readonly settled: number;
  /** Lowest level from `from` to `settled`. */
  lowest: number;
  /** The level from `settled` on, until the next span. */
  last: number;
}

/** Number of spans that divide the time kept: bounds the memory for a gate that admits thousands a second. */
const SPANS = 1024;

export class InFlightHistory {
  readonly #spans: Span[] = [];
  #keepMs: number;

  /** `keepMs`: how far back `lowest` can look. */
  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  keep(keepMs: number): void {
    this.#keepMs = keepMs;
  }

  /** Records that the level is `level` from now on. */
  note(now: number, level: number): void {
    const newest = this.#spans.at(-1);
    if (newest && now < newest.settled) {
      newest.lowest = Math.min(newest.lowest, level);
      newest.last = level;
      return;
    }
    const settled = now + Math.max(1, this.#keepMs / SPANS);
    this.#spans.push({ from: now, settled, lowest: level, last: level });
    const ended = this.#spans.findIndex((_, index) => (this.#spans[index + 1]?.from ?? now) >= now - this.#keepMs);
    if (ended > 0) this.#spans.splice(0, ended);
  }

  /** Returns the lowest level from `from` to `to`, both included; 0 if the record starts at `from` or later. */
  lowest(from: number, to: number): number {
    let lowest = Number.POSITIVE_INFINITY;
    if (!this.#spans[0] || from <= this.#spans[0].from) lowest = 0;
    this.#spans.forEach((span, index) => {
      const end = this.#spans[index + 1]?.from ?? Number.POSITIVE_INFINITY;
      const settled = Math.min(end, span.settled);
      if (span.from <= to && settled >= from) lowest = Math.min(lowest, span.lowest);
      if (settled <= to && end >= from) lowest = Math.min(lowest, span.last);
    });
    return lowest;
  }
}
