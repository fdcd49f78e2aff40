/** Adds up the stage readings of all engines of a runtime: an engine's meters die with it, its last readings stay. */
import type { StageStatus } from '../../core/model.ts';
import type { StageReading } from '../../core/readings.ts';
import { NOTHING_READ } from './stage-meter.ts';

export class StageTotals {
  /** Sums of the readings of dead engines, by stage ref. */
  readonly #past: Map<number, StageReading> = new Map();
  /** Last readings of the live engine, by stage ref. */
  readonly #present: Map<number, StageReading> = new Map();

  /** Takes over the engine's report. */
  update(stages: readonly StageStatus[]): void {
    for (const { ref, reading } of stages) this.#present.set(ref, reading);
  }

  /** Keeps the readings of an engine that has died; the next engine counts from 0. */
  engineLost(): void {
    for (const ref of this.#present.keys()) this.#past.set(ref, this.of(ref));
    this.#present.clear();
  }

  /** Forgets all other stages. */
  keep(refs: ReadonlySet<number>): void {
    for (const readings of [this.#past, this.#present]) {
      for (const ref of readings.keys()) if (!refs.has(ref)) readings.delete(ref);
    }
  }

  of(ref: number): StageReading {
    const past = this.#past.get(ref);
    const present = this.#present.get(ref) ?? NOTHING_READ;
    return past ? addReadings(past, present) : present;
  }
}

/** Adds two readings of the same kind, number by number. */
export function addReadings<T>(one: T, other: T): T {
  return combine(one, other, (a, b) => a + b) as T;
}

/** Subtracts an earlier reading from a later one of the same kind, number by number. */
export function subtractReadings<T>(later: T, earlier: T): T {
  return combine(later, earlier, (a, b) => a - b) as T;
}

function combine(one: unknown, other: unknown, operate: (a: number, b: number) => number): unknown {
  // A reading that is absent on one side counts as 0.
  const present = one ?? other;
  if (Array.isArray(present)) {
    const [a, b] = [one ?? [], other ?? []] as [unknown[], unknown[]];
    return present.map((_, index) => combine(a[index], b[index], operate));
  }
  if (typeof present !== 'object') return operate(Number(one ?? 0), Number(other ?? 0));
  const [a, b] = [one ?? {}, other ?? {}] as [Record<string, unknown>, Record<string, unknown>];
  return Object.fromEntries(Object.keys({ ...a, ...b }).map((key) => [key, combine(a[key], b[key], operate)]));
}
