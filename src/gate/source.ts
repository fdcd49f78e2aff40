/** Interface of the sources that tell a gate how much capacity is free. Each file in `sources/` implements one. */
import type { ConnectionOptions } from 'node:tls';
import type { GateSource } from '../config/compile-gate.ts';
import type { Clock, Deadline } from '../core/clock.ts';
import type { StageLoad } from '../core/model.ts';

/** One measurement of the system behind a gate. */
export interface Sample {
  /** D: free share of the capacity, clamped to 0..1 by the gate; NaN closes the gate. */
  readonly budget: number;
  /** Time of the measurement, on the monotonic clock. */
  readonly at: Deadline;
  /** max_SYS if the source knows it; replaces ready workers x `maxConcurrency`. A smaller configured max_SYS wins. */
  readonly maxSys?: number;
  /** Longest time by which the measured state may be older than `at`, in ms, if less than the rule's `lagMs`. */
  readonly lagMs?: number;
  /** Time between two measurements, in ms, if the source has observed it. */
  readonly everyMs?: number;
  /** The budget does not depend on the gate's own load (a constant, a window): at most N may be in flight. */
  readonly fixed?: true;
  /** The number as read and its meaning, for people: `saturation 0.42`. */
  readonly raw?: string;
}

export type Reading =
  | { readonly ok: true; readonly sample: Sample }
  /** Without a sample the gate closes; `reason` says why, for people. */
  | { readonly ok: false; readonly reason: string };

/** How an admitted request ended, as far as that tells something about the system behind the gate. */
export type LeaseEnd =
  | { readonly kind: 'done' }
  /** An error that is unrelated to load. */
  | { readonly kind: 'failed' }
  /** The system is overloaded: 429 or 503, or a refusal by this runtime. `retryAfterMs`: pause asked for, else 0. */
  | { readonly kind: 'refused'; readonly retryAfterMs: number }
  /** The result is not needed. */
  | { readonly kind: 'cancelled' }
  /** No result was seen within `leaseMs`, or a deploy lost the request. */
  | { readonly kind: 'lost' };

/** A lease that ends, with the load at that moment. */
export interface EndedLease {
  readonly admittedAt: Deadline;
  /** In the gate's unit. */
  readonly cost: number;
  /** Cost of all leases held just before this one ended, itself included. */
  readonly inFlightCost: number;
}

export interface BudgetSource {
  /** Name for people: `PromQL at http://127.0.0.1:9090`. */
  readonly description: string;
  /** Reads once. Never rejects and never takes longer than `timeoutMs`; ends early when `signal` is aborted. */
  read(signal: AbortSignal): Promise<Reading>;
  /** Called for each lease that ends, for sources that learn from it. */
  ended?(end: LeaseEnd, lease: EndedLease): void;
  /** Calls `changed` when a reading before the next interval is useful. Returns a function that stops the calls. */
  watch?(changed: () => void): () => void;
  close(): Promise<void>;
}

export type SourceSettings<Kind extends GateSource['kind']> = Extract<GateSource, { kind: Kind }>;

/** Services that the sources get from their surroundings. */
export interface SourceServices {
  readonly clock: Clock;
  readonly credentials: Credentials;
  /** Options of the TLS configuration node named in the settings, or undefined. */
  readonly tls?: TlsOptions | undefined;
  /** Returns a value of Node-RED's context, or a promise of one. */
  readonly readContext: (context: 'flow' | 'global', key: string) => unknown;
  /** Returns the load of the stage whose workers determine max_SYS; null while it is unknown. */
  readonly readLoad: () => StageLoad | null;
  /** Calls `changed` when that load has changed. Returns a function that stops the calls. */
  readonly watchLoad: (changed: () => void) => () => void;
}

export interface Credentials {
  /** Sent as a bearer token; takes precedence over user and password. */
  readonly token?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

/** Options that a TLS configuration node of Node-RED sets. */
export type TlsOptions = Pick<
  ConnectionOptions,
  'ca' | 'cert' | 'key' | 'passphrase' | 'servername' | 'rejectUnauthorized'
>;
