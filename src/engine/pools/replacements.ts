/**
 * Replaces workers that serve by new ones, for their age, for their memory, or because somebody asked: one at a time,
 * so that a stage never needs room for twice its workers.
 */
import type { StageDefinition } from '../../core/model.ts';
import type { RestartCause } from '../../core/readings.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { Slot } from './slot.ts';

export type ReplacementCause = Extract<RestartCause, 'recycled' | 'asked'>;

const MB = 1024 * 1024;

export class Replacements<T extends WireItem> {
  readonly #due: Map<Slot<T>, ReplacementCause> = new Map();
  #present: { readonly slot: Slot<T>; readonly cause: ReplacementCause } | null = null;

  /** False if the slot's worker is to be replaced anyway. */
  request(slot: Slot<T>, cause: ReplacementCause): boolean {
    // Who asks while a successor starts may have changed what it was started with.
    if (cause === 'recycled' && (this.#due.has(slot) || this.#present?.slot === slot)) return false;
    this.#due.set(slot, cause);
    this.#next();
    return true;
  }

  /** The slot's successor serves. Why it was wanted. */
  done(slot: Slot<T>): ReplacementCause {
    const cause = this.#present?.cause ?? 'asked';
    if (this.#present?.slot === slot) this.#present = null;
    this.#next();
    return cause;
  }

  /** The slot's worker died, and what comes now is new: it is worn no more. */
  died(slot: Slot<T>): void {
    if (this.#due.get(slot) === 'recycled') this.#due.delete(slot);
  }

  /** Wants nothing any more; what has been started is the slots' to end. */
  clear(): void {
    this.#due.clear();
    this.#present = null;
  }

  #next(): void {
    if (this.#present) return;
    const [first] = this.#due;
    if (!first) return;
    const [slot, cause] = first;
    this.#due.delete(slot);
    this.#present = { slot, cause };
    slot.replace();
  }
}

/** Why a worker is to be replaced, in words; null if it is not. */
export function wear<T extends WireItem>(slot: Slot<T>, definition: StageDefinition): string | null {
  const { recycleAfter, maxRssMb } = definition;
  if (recycleAfter > 0 && slot.batchesRun >= recycleAfter) return `it has run ${slot.batchesRun} batches`;
  if (slot.batchesRun === 0 || !exceeds(slot.usage, maxRssMb) || exceeds(slot.usageAtFirst, maxRssMb)) return null;
  return `it uses ${megabytes(slot.usage)} MB`;
}

/** A new worker that uses more than it may will not be helped by another: why it is not replaced; null if it is well. */
export function tooLargeAtFirst<T extends WireItem>(slot: Slot<T>, { maxRssMb }: StageDefinition): string | null {
  if (slot.usage !== slot.usageAtFirst || !exceeds(slot.usage, maxRssMb)) return null;
  return `uses ${megabytes(slot.usage)} MB before its first batch, more than maxRssMb ${maxRssMb}: it is not replaced for that`;
}

type Usage = Slot<WireItem>['usage'];

function exceeds(usage: Usage, maxRssMb: number): boolean {
  return maxRssMb > 0 && usage !== null && usage.rssBytes > maxRssMb * MB;
}

function megabytes(usage: Usage): number {
  return Math.round((usage?.rssBytes ?? 0) / MB);
}
