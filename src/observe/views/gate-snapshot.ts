/** The state of a gate for the editor, the snapshot and Prometheus: why the gate is open or closed, in numbers. */

/** A gate's decisions about requests. Every decision has a counter from the start. */
export const GATE_DECISIONS = [
  'admitted',
  /** Admitted after waiting at the gate. */
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
  /** The reason why the store cannot be used; null if it can. */
  readonly error: string | null;
  /** The risk of losing items although the store works; null: none. */
  readonly warning: string | null;
  /** Number of items claimed and not ended. */
  readonly running: number;
  /** Number of waiting items that may not be tried again yet. */
  readonly delayed: number;
  readonly dead: number;
  /** A few of the latest dead items. */
  readonly deadLetters: readonly { readonly id: string; readonly attempts: number; readonly reason: string }[];
}

export interface GateSnapshot {
  /** Id of the gate's node. */
  readonly id: string;
  readonly name: string;
  /** `auto`: the budget decides; a message has asked for the other values. */
  readonly control: 'auto' | 'open' | 'close';
  readonly open: boolean;
  /** One sentence: why the gate is closed and what would open it, or how much it admits. */
  readonly why: string;
  readonly unit: 'requests' | 'bytes' | 'tokens';
  /** Current D: the last reading plus the share that the gate's own requests have freed since. 0 if not known. */
  readonly budget: number;
  /** B. */
  readonly baseline: number;
  /** N, in `unit`. */
  readonly quota: number;
  readonly maxSys: number;
  /** The amount that the gate would admit now, in `unit`; null: everything. */
  readonly room: number | null;
  readonly source: {
    readonly description: string;
    /** Whether the last reading gave a sample. */
    readonly available: boolean;
    /** The reason why the last reading gave no sample; null if it did. */
    readonly error: string | null;
    /** The sample as read, such as `saturation 0.42`; null if there was none. */
    readonly raw: string | null;
    /** Warning that the source measures less often than a sample may be old; null if not so, or if not known. */
    readonly rare: string | null;
    /** Age of the last sample in ms; null if there never was one. */
    readonly ageMs: number | null;
  };
  /** Admitted and not ended, in requests and in `unit`. */
  readonly inFlight: number;
  readonly inFlightCost: number;
  readonly waiting: number;
  readonly capacity: number;
  /** Wait of the oldest waiting request, in ms; null if none waits. */
  readonly oldestMs: number | null;
  /** Last refusal by the system behind the gate: its age and the wait it asked for, in ms; null if it never refused. */
  readonly lastRefusal: { readonly agoMs: number; readonly retryAfterMs: number } | null;
  /** Leases that ended because no result was seen within `leaseMs`. */
  readonly lost: number;
  readonly decisions: Readonly<Record<GateDecision, number>>;
  /** Null for a gate whose waiting room is in memory. */
  readonly store: StoreSnapshot | null;
}

/** A gate as the editor shows it. */
export interface GateView extends GateSnapshot {
  /** Name of the stage whose workers count; null if no stage counts. */
  readonly stage: string | null;
  /** Warnings about the gate's settings. */
  readonly warnings: readonly string[];
}
