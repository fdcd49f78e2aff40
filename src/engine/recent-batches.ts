/** What a stage remembers of its last batches: their run time, to plan by, and their size, to show. */

const SMOOTHING = 0.2;

export class RecentBatches {
  #meanRunMs: number | null = null;
  #shown = { batches: 0, items: 0, mean: 0 };

  /** Smoothed; null before the first reply. */
  get meanRunMs(): number | null {
    return this.#meanRunMs;
  }

  ran(runMs: number): void {
    this.#meanRunMs = this.#meanRunMs === null ? runMs : this.#meanRunMs + SMOOTHING * (runMs - this.#meanRunMs);
  }

  /** Mean size of the batches since it was last asked, or of those before where there were none; from running totals. */
  meanSize(batches: number, items: number): number {
    const recent = batches - this.#shown.batches;
    if (recent > 0) this.#shown = { batches, items, mean: (items - this.#shown.items) / recent };
    return this.#shown.mean;
  }
}
