/** What a gate knows of itself, for the editor, the snapshot and Prometheus: why it is open or closed, in numbers. */

/** Why requests were let through or not. Every one is counted from the start. */
export const GATE_DECISIONS = [
  'admitted',
  /** It has waited here first. */
  'admitted_late',
  'refused_closed',
  'refused_full',
  'expired',
  'dropped',
  'cancelled',
] as const;

export type GateDecision = (typeof GATE_DECISIONS)[number];

/** The store of a durable gate. */
export interface StoreSnapshot {
  readonly file: string;
  readonly pid: number | null;
  readonly restarts: number;
  /** Why it cannot be used; null where it can. */
  readonly error: string | null;
  /** Claimed and not ended. */
  readonly running: number;
  /** Of those that wait: until they may be tried again. */
  readonly delayed: number;
  readonly dead: number;
  /** The latest of the dead, a few. */
  readonly deadLetters: readonly { readonly id: string; readonly attempts: number; readonly reason: string }[];
}

export interface GateSnapshot {
  /** Id of the node. */
  readonly id: string;
  readonly name: string;
  /** `auto`: as the budget says; the others were asked for by a message. */
  readonly control: 'auto' | 'open' | 'close';
  readonly open: boolean;
  /** In a sentence: why it is closed and what would open it, or how much it admits. */
  readonly why: string;
  readonly unit: 'requests' | 'bytes' | 'tokens';
  /** D as it is now: as it was read, and what of the gate's own has ended since. 0 where it is not known. */
  readonly budget: number;
  /** B. */
  readonly baseline: number;
  /** N, in `unit`. */
  readonly quota: number;
  readonly maxSys: number;
  readonly source: {
    readonly description: string;
    /** Its last reading gave a sample. */
    readonly available: boolean;
    /** Why it gave none; null if it did. */
    readonly error: string | null;
    /** As it was read: `saturation 0.42`; null if none was. */
    readonly raw: string | null;
    /** In words: it is measured less often than a sample may be old; null where that is not so, or not known. */
    readonly rare: string | null;
    /** Age of the last sample in ms; null if there never was one. */
    readonly ageMs: number | null;
  };
  /** Admitted and not ended, in requests and in `unit`. */
  readonly inFlight: number;
  readonly inFlightCost: number;
  readonly waiting: number;
  readonly capacity: number;
  /** How long the oldest that waits has waited, in ms; null if none does. */
  readonly oldestMs: number | null;
  /** The last time that the system behind it refused: how long ago, and how long it asked to wait, in ms; null: never. */
  readonly lastRefusal: { readonly agoMs: number; readonly retryAfterMs: number } | null;
  /** Leases that ended because no result was seen within `leaseMs`. */
  readonly lost: number;
  readonly decisions: Readonly<Record<GateDecision, number>>;
  /** Null for a gate whose waiting room is in memory. */
  readonly store: StoreSnapshot | null;
}

/** What people see of a gate in the editor. */
export interface GateView extends GateSnapshot {
  /** Name of the stage whose workers count; null: none does. */
  readonly stage: string | null;
  /** What is odd about its settings. */
  readonly warnings: readonly string[];
}
