/**
 * Replaces serving workers because of their age, their memory or a user's request. Replaces one at a time, so that a
 * stage never needs memory for twice its workers.
 */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { RestartCause } from '../../../core/readings.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import type { Slot } from './slot.ts';

export type ReplacementCause = Extract<RestartCause, 'recycled' | 'asked'>;

const MB = 1024 * 1024;

export class Replacements<T extends WireItem> {
  readonly #due: Map<Slot<T>, ReplacementCause> = new Map();
  #present: { readonly slot: Slot<T>; readonly cause: ReplacementCause } | null = null;

  /** Requests a replacement; returns false if the slot's worker will be replaced anyway. */
  request(slot: Slot<T>, cause: ReplacementCause): boolean {
    // A user who asks while a successor starts may have changed the code after that successor loaded it.
    if (cause === 'recycled' && (this.#due.has(slot) || this.#present?.slot === slot)) return false;
    this.#due.set(slot, cause);
    this.#next();
    return true;
  }

  /** Notes that the slot's successor serves; returns the cause of the replacement. */
  done(slot: Slot<T>): ReplacementCause {
    const cause = this.#present?.cause ?? 'asked';
    if (this.#present?.slot === slot) this.#present = null;
    this.#next();
    return cause;
  }

  /** Notes that the slot's worker died. The next worker is new, so a replacement for wear is no longer due. */
  died(slot: Slot<T>): void {
    if (this.#due.get(slot) === 'recycled') this.#due.delete(slot);
  }

  /** Drops all requests; the slots must end the successors that have started. */
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

/** Returns the reason for replacing a worker, as text; null if there is none. */
export function wear<T extends WireItem>(slot: Slot<T>, definition: StageDefinition): string | null {
  const { recycleAfter, maxRssMb } = definition;
  if (recycleAfter > 0 && slot.batchesRun >= recycleAfter) return `it has run ${slot.batchesRun} batches`;
  if (slot.batchesRun === 0 || !exceeds(slot.usage, maxRssMb) || exceeds(slot.usageAtFirst, maxRssMb)) return null;
  return `it uses ${megabytes(slot.usage)} MB`;
}

/** Returns a warning if a new worker exceeds its memory limit, which no replacement would help; otherwise null. */
export function tooLargeAtFirst<T extends WireItem>(slot: Slot<T>, { maxRssMb }: StageDefinition): string | null {
  if (slot.usage !== slot.usageAtFirst || !exceeds(slot.usage, maxRssMb)) return null;
  return `uses ${megabytes(slot.usage)} MB before its first batch, more than maxRssMb ${maxRssMb}, so the stage does not replace it for that`;
}

type Usage = Slot<WireItem>['usage'];

function exceeds(usage: Usage, maxRssMb: number): boolean {
  return maxRssMb > 0 && usage !== null && usage.rssBytes > maxRssMb * MB;
}

function megabytes(usage: Usage): number {
  return Math.round((usage?.rssBytes ?? 0) / MB);
}
