/** Where a gate learns how much capacity is free. One implementation per file in `sources/`. */
import type { Deadline } from '../core/clock.ts';

/** One measurement of the system behind a gate. */
export interface Sample {
  /** D: share of the capacity that is free, 0..1 once clamped; NaN closes the gate. */
  readonly budget: number;
  /** When it was measured, on the monotonic clock. */
  readonly at: Deadline;
  /** max_SYS, where the source knows it, in place of ready workers x `maxConcurrency`; a given one holds if it is less. */
  readonly maxSys?: number;
  /** How far what was measured may be behind `at`, in ms, where the source knows it to be less than the rule's `lagMs`. */
  readonly lagMs?: number;
  /** From one measurement to the next, in ms, where the source has seen it. */
  readonly everyMs?: number;
  /** The number does not move with what this gate sends (a constant, a window): N is all that may be in flight. */
  readonly fixed?: true;
  /** The number as it was read, and what of, for people: `saturation 0.42`. */
  readonly raw?: string;
}

export type Reading =
  | { readonly ok: true; readonly sample: Sample }
  /** Why there is none, for people. Closes the gate. */
  | { readonly ok: false; readonly reason: string };

/** How the way of an admitted request ended, as far as it tells of the system behind the gate. */
export type LeaseEnd =
  | { readonly kind: 'done' }
  /** An error that says nothing of load. */
  | { readonly kind: 'failed' }
  /** The system is overloaded: 429 or 503, or this runtime's own refusals. `retryAfterMs`: as it asked, else 0. */
  | { readonly kind: 'refused'; readonly retryAfterMs: number }
  /** Nobody wants it any more. */
  | { readonly kind: 'cancelled' }
  /** No result was seen within `leaseMs`, or it was lost in a deploy. */
  | { readonly kind: 'lost' };

/** What the gate knows of a lease that ends. */
export interface EndedLease {
  readonly admittedAt: Deadline;
  /** In the gate's unit. */
  readonly cost: number;
  /** Cost of all that was in flight just before it ended, its own included. */
  readonly inFlightCost: number;
}

export interface BudgetSource {
  /** In a few words: `PromQL at http://127.0.0.1:9090`. */
  readonly description: string;
  /** Reads once. Never rejects and never takes longer than `timeoutMs`; gives up when `signal` is aborted. */
  read(signal: AbortSignal): Promise<Reading>;
  /** Told of each lease that ends, for sources that learn from it. */
  ended?(end: LeaseEnd, lease: EndedLease): void;
  /** Calls `changed` when a new reading is worth while before its time; returns how to stop. */
  watch?(changed: () => void): () => void;
  close(): Promise<void>;
}
