/**
 * The arithmetic of a dispatch gate: from a measurement to how much may be sent. Pure; knows nothing of time or leases.
 *
 * Plain floating point errs in both directions that matter: 1 - 0.18 > 0.82 would open a gate at equality, and
 * floor(10 * (0.7 - 0.2)) is 4. Every comparison here gives way by EPSILON, scaled by the capacity where it is in its unit.
 */

export const EPSILON = 1e-9;

/** The part of a gate's rule that turns a budget into a number. */
export interface QuotaRule {
  /** B, 0..1. */
  readonly baseline: number;
  readonly rounding: 'floor' | 'ceil';
  /** An open gate has a quota of at least 1. */
  readonly atLeastOne: boolean;
}

/** D within 0..1. What is not a finite number is no capacity: 0. */
export function clampBudget(budget: number): number {
  return Number.isFinite(budget) ? Math.min(1, Math.max(0, budget)) : 0;
}

/** D = 1 - S. An overshot saturation leaves nothing, a negative one counts as 0, and no number leaves nothing. */
export function budgetOfSaturation(saturation: number): number {
  return clampBudget(1 - saturation);
}

/** Open iff D > B; closed at equality. */
export function isOpen(budget: number, baseline: number): boolean {
  return clampBudget(budget) - baseline > EPSILON;
}

/** max_SYS as it counts: what is not a finite number above 0 is no capacity. */
export function clampCapacity(maxSys: number): number {
  return Number.isFinite(maxSys) ? Math.max(0, maxSys) : 0;
}

/** N = max_SYS x (D - B), whole, in the unit of max_SYS; 0 where the gate is closed. */
export function quotaOf({ baseline, rounding, atLeastOne }: QuotaRule, budget: number, maxSys: number): number {
  const capacity = clampCapacity(maxSys);
  if (capacity === 0 || !isOpen(budget, baseline)) return 0;
  const exact = capacity * (clampBudget(budget) - baseline);
  const slack = slackOf(capacity);
  const whole = rounding === 'floor' ? Math.floor(exact + slack) : Math.ceil(exact - slack);
  return Math.max(atLeastOne ? 1 : 0, whole);
}

/** The most that may ever be in flight: max_SYS x (1 - B), in the unit of max_SYS and not rounded. */
export function ceilingOf(baseline: number, maxSys: number): number {
  return clampCapacity(maxSys) * (1 - Math.min(1, Math.max(0, baseline)));
}

/** Whether a cost is within what is free, up to what floating point cannot tell apart. */
export function fits(cost: number, room: number, maxSys: number): boolean {
  return cost <= room + slackOf(maxSys);
}

function slackOf(maxSys: number): number {
  return EPSILON * Math.max(1, clampCapacity(maxSys));
}
