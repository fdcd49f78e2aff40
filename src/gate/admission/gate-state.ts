/** Computes whether a gate is open, the numbers behind that, and the cause. Pure. */
import type { GateRule } from '../../config/compile-gate.ts';
import type { Sample } from '../source.ts';
import { ceilingOf, clampBudget, clampCapacity, isOpen, quotaOf } from './budget.ts';
import type { LatchState } from './refusal-latch.ts';

/** Order given by a message; `auto` follows the budget. */
export type GateControl = 'auto' | 'open' | 'close';

export type LastReading =
  | { readonly tag: 'unread' }
  | { readonly tag: 'unreadable'; readonly reason: string }
  /** `base`: cost of the gate's own requests that the sample certainly includes. */
  | { readonly tag: 'sampled'; readonly sample: Sample; readonly base: number };

export interface GateFacts {
  readonly now: number;
  readonly rule: GateRule;
  readonly control: GateControl;
  readonly known: LastReading;
  readonly latch: LatchState;
  /** Number of ready workers. */
  readonly ready: number;
  /** Cost of all leases held. */
  readonly inFlight: number;
  /** Whether the gate takes its budget from member gates. */
  readonly composite: boolean;
}

export interface Figures {
  /** Estimate of D now; 0 if unknown. */
  readonly budget: number;
  /** D as read; 0 if unknown. */
  readonly read: number;
  readonly maxSys: number;
  /** N; 0 while closed. */
  readonly quota: number;
  /** The most that may be in flight now. */
  readonly limit: number;
  /** max_SYS x (1 - B). */
  readonly ceiling: number;
  /** Cost that may be admitted now. */
  readonly room: number;
}

export type Cause =
  | { readonly tag: 'open' }
  /** Held open by a message. */
  | { readonly tag: 'forced' }
  /** Held closed by a message. */
  | { readonly tag: 'held' }
  | { readonly tag: 'unread' }
  | { readonly tag: 'unreadable'; readonly reason: string }
  /** `waitMs`: rest of the pause that the system asked for. */
  | { readonly tag: 'refused'; readonly agoMs: number; readonly waitMs: number; readonly needsSample: boolean }
  | { readonly tag: 'stale'; readonly ageMs: number }
  /** max_SYS is 0. */
  | { readonly tag: 'no-capacity' }
  /** D <= B. */
  | { readonly tag: 'low' }
  /** D > B, but N rounds to 0. */
  | { readonly tag: 'less-than-one' };

export interface GateState extends Figures {
  readonly cause: Cause;
  readonly open: boolean;
}

const ENDLESS = Number.POSITIVE_INFINITY;

export function gateStateOf(facts: GateFacts): GateState {
  const { rule, inFlight, known } = facts;
  const sample = known.tag === 'sampled' ? known.sample : null;
  const maxSys = maxSysOf(rule, sample, facts.ready);
  const ceiling = ceilingOf(rule.baseline, maxSys);
  const estimate = known.tag === 'sampled' ? budgetNow(known.sample.budget, known.base - inFlight, maxSys) : 0;
  const cause = causeOf(facts, sample, estimate, maxSys);
  const isKnown = sample !== null && cause.tag !== 'stale' && cause.tag !== 'refused';
  const [budget, read] = isKnown ? [estimate, clampBudget(sample.budget)] : [0, 0];
  const figures = { cause, budget, read, maxSys, ceiling };
  if (cause.tag === 'forced' || (facts.composite && cause.tag === 'open')) {
    return { ...figures, open: true, quota: 0, limit: ENDLESS, room: ENDLESS };
  }
  if (cause.tag !== 'open') return { ...figures, open: false, quota: 0, limit: 0, room: 0 };
  const quota = quotaOf(rule, budget, maxSys);
  const base = known.tag === 'sampled' ? Math.min(known.base, inFlight) : 0;
  const limit = Math.min(base + quota, ceiling);
  return { ...figures, open: true, quota, limit, room: Math.max(0, limit - inFlight) };
}

/**
 * Estimates D now. Requests that the sample certainly includes free their share when they end; otherwise a gate that
 * has used all capacity would stall until the next sample. If the sample shows no spare capacity, the extent of the
 * overload is unknown, so D stays 0 until the next sample.
 */
function budgetNow(read: number, ended: number, maxSys: number): number {
  const budget = clampBudget(read);
  return budget > 0 && ended > 0 && maxSys > 0 ? clampBudget(budget + ended / maxSys) : budget;
}

/** Checks in this order: causes that hold whatever was measured, missing measurements, then the measured values. */
function causeOf(facts: GateFacts, sample: Sample | null, budget: number, maxSys: number): Cause {
  const { now, rule, control, known, latch } = facts;
  if (control !== 'auto') return { tag: control === 'open' ? 'forced' : 'held' };
  if (facts.composite) return { tag: 'open' };
  if (latch.tag !== 'clear') {
    const waitMs = Math.max(0, latch.until - now);
    return { tag: 'refused', agoMs: now - latch.refusedAt, waitMs, needsSample: latch.tag === 'needs-sample' };
  }
  if (known.tag === 'unreadable') return { tag: 'unreadable', reason: known.reason };
  if (!sample) return { tag: 'unread' };
  if (now - sample.at > rule.staleMs) return { tag: 'stale', ageMs: now - sample.at };
  if (!Number.isFinite(sample.budget))
    return { tag: 'unreadable', reason: `${sample.raw ?? 'what was read'} is no number` };
  if (maxSys === 0) return { tag: 'no-capacity' };
  if (!isOpen(budget, rule.baseline)) return { tag: 'low' };
  return { tag: quotaOf(rule, budget, maxSys) === 0 ? 'less-than-one' : 'open' };
}

/**
 * Returns the smaller of the configured max_SYS and the source's; with neither, ready workers x `maxConcurrency`.
 */
function maxSysOf(rule: GateRule, sample: Sample | null, ready: number): number {
  const known = [rule.maxSys, sample?.maxSys].filter((maxSys) => typeof maxSys === 'number');
  return known.length > 0 ? Math.min(...known.map(clampCapacity)) : clampCapacity(ready * rule.maxConcurrency);
}
