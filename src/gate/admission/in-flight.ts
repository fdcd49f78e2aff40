/**
 * How much a gate had in flight, and when. A measurement shows an earlier time than now, so what it says of free
 * capacity already includes some of what is in flight, but nobody knows of which moment: the least that was in flight
 * in all of the time it may be about is what it includes for sure.
 *
 * Changes that lie close together are kept as one span with their lowest level: the answer may be too low by what came
 * and went within a span, which admits less and never more.
 */

interface Span {
  readonly from: number;
  /** Until then changes are kept together. */
  readonly settled: number;
  /** Of all levels from `from` to `settled`. */
  lowest: number;
  /** The level from `settled` on, until the next span. */
  last: number;
}

/** Spans kept: what is remembered of a gate that admits thousands a second stays small. */
const SPANS = 1024;

export class InFlightHistory {
  readonly #spans: Span[] = [];
  #keepMs: number;

  /** `keepMs`: how far back it can be asked. */
  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  keep(keepMs: number): void {
    this.#keepMs = keepMs;
  }

  /** The level is `level` from now on. */
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

  /** The lowest level from `from` to `to`, both included; 0 where nothing is known of that time. */
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
