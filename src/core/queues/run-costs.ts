/**
 * What a run of a batch costs: a + b n ms for n items, fitted to the runs of a stage. Runs of similar size share a class,
 * so that many runs of one size do not drive out what is known of the others.
 */

export interface RunCost {
  /** Cost of a run, in ms. */
  readonly fixedMs: number;
  /** Cost of each of its items, in ms. */
  readonly itemMs: number;
}

/** Returns how long a batch of so many items runs, in ms. */
export function runMsOf({ fixedMs, itemMs }: RunCost, items: number): number {
  return fixedMs + itemMs * items;
}

interface SizeClass {
  /** Number of runs, up to `MOST_COUNTED`. */
  readonly runs: number;
  readonly items: number;
  readonly ms: number;
}

/** Part of a class that its newest run makes up, once it has so many. */
const SMOOTHING = 0.1;
const MOST_COUNTED = 32;
/** Fewer runs say nothing about a line through two sizes. */
const LEAST_RUNS = 8;

export class RunCosts {
  /** By the power of two that the size of a batch reaches. */
  readonly #classes: Map<number, SizeClass> = new Map();

  note(items: number, ms: number): void {
    const key = Math.floor(Math.log2(items));
    const { runs, ...mean } = this.#classes.get(key) ?? { runs: 0, items: 0, ms: 0 };
    const part = Math.max(SMOOTHING, 1 / (runs + 1));
    this.#classes.set(key, {
      runs: Math.min(runs + 1, MOST_COUNTED),
      items: mean.items + part * (items - mean.items),
      ms: mean.ms + part * (ms - mean.ms),
    });
  }

  /** Largest size, in items, that the fit rests on; 0 before the first run. */
  get largest(): number {
    return [...this.#classes.values()].reduce((most, { items }) => Math.max(most, items), 0);
  }

  /** The fitted cost; null while runs are too few, or all of one size. */
  get fit(): RunCost | null {
    const classes = [...this.#classes.values()];
    const runs = classes.reduce((sum, one) => sum + one.runs, 0);
    if (classes.length < 2 || runs < LEAST_RUNS) return null;
    const mean = (of: (one: SizeClass) => number): number =>
      classes.reduce((sum, one) => sum + one.runs * of(one), 0) / runs;
    const [items, ms] = [mean((one) => one.items), mean((one) => one.ms)];
    const spread = mean((one) => (one.items - items) ** 2);
    const slope = mean((one) => (one.items - items) * (one.ms - ms)) / spread;
    // A part below zero is noise: the other one then explains all.
    const itemMs = Math.min(Math.max(slope, 0), ms / items);
    return { fixedMs: ms - itemMs * items, itemMs };
  }
}
