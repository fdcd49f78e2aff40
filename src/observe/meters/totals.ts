/** What engines have read of their stages, added up: an engine that dies takes its meters with it, not what they had read. */
import type { StageStatus } from '../../core/model.ts';
import type { StageReading } from '../../core/readings.ts';
import { NOTHING_READ } from './stage-meter.ts';

export class StageTotals {
  /** By stage ref: of engines that have died. */
  readonly #past: Map<number, StageReading> = new Map();
  /** By stage ref: last heard of the engine that lives. */
  readonly #present: Map<number, StageReading> = new Map();

  /** The engine has reported. */
  update(stages: readonly StageStatus[]): void {
    for (const { ref, reading } of stages) this.#present.set(ref, reading);
  }

  /** The engine has died; the next one counts from 0. */
  engineLost(): void {
    for (const ref of this.#present.keys()) this.#past.set(ref, this.of(ref));
    this.#present.clear();
  }

  /** Forgets all stages but these. */
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

/** The sums of all numbers of two readings of one kind. */
export function addReadings<T>(one: T, other: T): T {
  return combine(one, other, (a, b) => a + b) as T;
}

/** What came between an earlier reading and a later one of one kind. */
export function subtractReadings<T>(later: T, earlier: T): T {
  return combine(later, earlier, (a, b) => a - b) as T;
}

function combine(one: unknown, other: unknown, operate: (a: number, b: number) => number): unknown {
  if (Array.isArray(one)) return one.map((value, index) => combine(value, (other as unknown[])[index], operate));
  // A count that is absent on one side is 0 there.
  if (one === null || typeof one !== 'object') return operate(Number(one ?? 0), Number(other ?? 0));
  const [a, b] = [one, other] as [Record<string, unknown>, Record<string, unknown>];
  return Object.fromEntries(Object.keys({ ...a, ...b }).map((key) => [key, combine(a[key], b[key], operate)]));
}
