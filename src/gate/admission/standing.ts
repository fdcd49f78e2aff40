/** How a gate stands: open or closed, in numbers, and from what. Pure. */
import type { GateRule } from '../../config/compile-gate.ts';
import type { Sample } from '../source.ts';
import { ceilingOf, clampBudget, clampCapacity, isOpen, quotaOf } from './budget.ts';
import type { LatchState } from './refusal-latch.ts';

/** What was asked for by a message: `auto` is as the budget says. */
export type GateControl = 'auto' | 'open' | 'close';

/** What the last reading told. */
export type Known =
  | { readonly tag: 'unread' }
  | { readonly tag: 'unreadable'; readonly reason: string }
  /** `base`: what the sample includes of this gate's own requests for sure. */
  | { readonly tag: 'sampled'; readonly sample: Sample; readonly base: number };

export interface Facts {
  readonly now: number;
  readonly rule: GateRule;
  readonly control: GateControl;
  readonly known: Known;
  readonly latch: LatchState;
  /** Workers that are ready. */
  readonly ready: number;
  /** Cost of what is in flight. */
  readonly inFlight: number;
  /** It has no budget of its own. */
  readonly composite: boolean;
}

export interface Figures {
  /** D as it is now; 0 where it is not known. */
  readonly budget: number;
  /** D as it was read; 0 where it is not known. */
  readonly read: number;
  readonly maxSys: number;
  /** N; 0 while closed. */
  readonly quota: number;
  /** The most that may be in flight now. */
  readonly limit: number;
  /** max_SYS x (1 - B). */
  readonly ceiling: number;
  /** How much may be sent now. */
  readonly room: number;
}

export type Cause =
  | { readonly tag: 'open' }
  /** By a message. */
  | { readonly tag: 'forced' }
  | { readonly tag: 'held' }
  | { readonly tag: 'unread' }
  | { readonly tag: 'unreadable'; readonly reason: string }
  /** `waitMs`: what is left of the time that the system asked for. */
  | { readonly tag: 'refused'; readonly agoMs: number; readonly waitMs: number; readonly needsSample: boolean }
  | { readonly tag: 'stale'; readonly ageMs: number }
  /** max_SYS is 0. */
  | { readonly tag: 'no-capacity' }
  /** D <= B. */
  | { readonly tag: 'low' }
  /** D > B, and N came out as 0. */
  | { readonly tag: 'less-than-one' };

export interface Standing extends Figures {
  readonly cause: Cause;
  readonly open: boolean;
}

const ENDLESS = Number.POSITIVE_INFINITY;

export function standingOf(facts: Facts): Standing {
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
 * D now. What the sample includes of this gate's own requests for sure, and has ended since, is free again: else a gate
 * that has filled all there is would stand still until the next sample. Where nothing was free, nobody knows how far
 * beyond that it was, and the next sample has to tell.
 */
function budgetNow(read: number, ended: number, maxSys: number): number {
  const budget = clampBudget(read);
  return budget > 0 && ended > 0 && maxSys > 0 ? clampBudget(budget + ended / maxSys) : budget;
}

/** Closed whatever was measured comes first, then what was not measured, then what was. */
function causeOf(facts: Facts, sample: Sample | null, budget: number, maxSys: number): Cause {
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

/** What was given and what the source knows: the smaller holds. With neither: ready workers x what one takes. */
function maxSysOf(rule: GateRule, sample: Sample | null, ready: number): number {
  const known = [rule.maxSys, sample?.maxSys].filter((maxSys) => typeof maxSys === 'number');
  return known.length > 0 ? Math.min(...known.map(clampCapacity)) : clampCapacity(ready * rule.maxConcurrency);
}
