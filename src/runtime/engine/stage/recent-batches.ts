/** A stage's last batches: run times for planning, sizes for display, and an input to test the stage with. */
import type { Payload } from '../../../core/model.ts';
import { byteLengthOf, copiedBytes } from '../../../wire/codec/chunks.ts';
import { Growth } from '../routes/memory.ts';

const SMOOTHING = 0.2;
/** A busy worker gets a second batch only if runs are shorter than this: no other worker can take that batch over. */
const SHORT_RUN_MS = 4;
/**
 * Most single items that may wait in a busy worker, and their work and bytes together: engine and worker then wake each other
 * once for several short runs. No other worker can take them over, and a higher priority cannot pass them.
 */
const AHEAD = { most: 8, workMs: 1, bytes: 64 * 1024 } as const;
/** Number of mean deviations above the mean that still count as usual; RFC 6298's rule for a timeout. */
const USUAL_DEVIATIONS = 4;
/** Upper bound of "usual" as a multiple of the mean: a few slow batches say little about the next. */
const USUAL_MEANS = 2;
/** An input is copied after this pause, in ms, and up to this size, so that the copies cost nothing to speak of. */
const INPUT = { pauseMs: 100, mostBytes: 65_536 } as const;

/** A stage's last batches. */
export class RecentBatches {
  /** How much larger its results are than their inputs. */
  readonly growth: Growth = new Growth();
  #meanRunMs: number | null = null;
  /** Bytes of a large payload, of inputs and results. */
  #bytes = 0;
  #turnaround = { mean: 0, deviation: 0 };
  #shown = { batches: 0, items: 0, mean: 0 };
  #input: { readonly payload: Payload; readonly at: number } | null = null;

  /** A copy of the last input; null before the first, and while all have been large. */
  get lastInput(): Payload | null {
    return this.#input?.payload ?? null;
  }

  /** Smoothed mean run time; null before the first reply. */
  get meanRunMs(): number | null {
    return this.#meanRunMs;
  }

  /** Number of batches that may wait in a busy worker; 0 before the first reply. */
  get ahead(): number {
    if (this.#meanRunMs === null || this.#meanRunMs >= SHORT_RUN_MS) return 0;
    const count = Math.floor(Math.min(AHEAD.workMs / this.#meanRunMs, AHEAD.bytes / this.#bytes));
    return Math.min(Math.max(count, 1), AHEAD.most);
  }

  /** Time within which nearly every batch is answered, estimated from the last batches; 0 before the first reply. */
  get usualTurnaroundMs(): number {
    const { mean, deviation } = this.#turnaround;
    return Math.min(mean + USUAL_DEVIATIONS * deviation, USUAL_MEANS * mean);
  }

  /** Takes the last input of a batch. A copy, because the payload lies in a frame that must not be kept. */
  noteInput(payload: Payload, now: number): void {
    if (byteLengthOf(payload) > INPUT.mostBytes || (this.#input && now - this.#input.at < INPUT.pauseMs)) return;
    this.#input = { payload: { codec: payload.codec, bytes: copiedBytes(payload) }, at: now };
  }

  /** @param turnaroundMs from leaving to the reply: the run, transit both ways, and the wait of a batch sent ahead */
  ran(runMs: number, turnaroundMs: number): void {
    const { mean, deviation } = this.#meanRunMs === null ? { mean: turnaroundMs, deviation: 0 } : this.#turnaround;
    const off = turnaroundMs - mean;
    this.#turnaround = {
      mean: mean + SMOOTHING * off,
      deviation: deviation + SMOOTHING * (Math.abs(off) - deviation),
    };
    this.#meanRunMs = this.#meanRunMs === null ? runMs : this.#meanRunMs + SMOOTHING * (runMs - this.#meanRunMs);
  }

  /** Notes the size of an input and its result, in bytes. */
  answered(input: number, result: number): void {
    this.growth.note(input, result);
    this.#bytes = Math.max(input, result, this.#bytes * (1 - SMOOTHING));
  }

  /** Returns the mean batch size since the last call, or the previous mean if no batch ran; takes running totals. */
  meanSize(batches: number, items: number): number {
    const recent = batches - this.#shown.batches;
    if (recent > 0) this.#shown = { batches, items, mean: (items - this.#shown.items) / recent };
    return this.#shown.mean;
  }
}
