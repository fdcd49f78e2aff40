/** What a stage remembers of its last batches: their run time, to plan by, and their size, to show. */

const SMOOTHING = 0.2;
/** A second batch is sent ahead to a busy worker only where runs are shorter than this: else it could not be stolen. */
const SHORT_RUN_MS = 4;
/** How many mean deviations above the mean still count as usual: the rule of RFC 6298 for a timeout. */
const USUAL_DEVIATIONS = 4;
/** No more than this many means are usual, however much they vary: a few slow ones say little of the next. */
const USUAL_MEANS = 2;

export class RecentBatches {
  #meanRunMs: number | null = null;
  #turnaround = { mean: 0, deviation: 0 };
  #shown = { batches: 0, items: 0, mean: 0 };

  /** Smoothed; null before the first reply. */
  get meanRunMs(): number | null {
    return this.#meanRunMs;
  }

  /** False before the first reply. */
  get areShort(): boolean {
    return this.#meanRunMs !== null && this.#meanRunMs < SHORT_RUN_MS;
  }

  /** Within which a batch that leaves now is nearly always answered, by the last ones; 0 before the first reply. */
  get usualTurnaroundMs(): number {
    const { mean, deviation } = this.#turnaround;
    return Math.min(mean + USUAL_DEVIATIONS * deviation, USUAL_MEANS * mean);
  }

  /** @param turnaroundMs from leaving to the reply: the run, the ways, and the wait of a batch sent ahead */
  ran(runMs: number, turnaroundMs: number): void {
    const { mean, deviation } = this.#meanRunMs === null ? { mean: turnaroundMs, deviation: 0 } : this.#turnaround;
    const off = turnaroundMs - mean;
    this.#turnaround = {
      mean: mean + SMOOTHING * off,
      deviation: deviation + SMOOTHING * (Math.abs(off) - deviation),
    };
    this.#meanRunMs = this.#meanRunMs === null ? runMs : this.#meanRunMs + SMOOTHING * (runMs - this.#meanRunMs);
  }

  /** Mean size of the batches since it was last asked, or of those before where there were none; from running totals. */
  meanSize(batches: number, items: number): number {
    const recent = batches - this.#shown.batches;
    if (recent > 0) this.#shown = { batches, items, mean: (items - this.#shown.items) / recent };
    return this.#shown.mean;
  }
}
