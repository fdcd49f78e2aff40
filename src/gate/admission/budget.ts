/**
 * Computes how much a dispatch gate may admit from a measurement. Pure; knows nothing of time or leases.
 *
 * Plain floating point errs in both directions that matter: 1 - 0.18 > 0.82 would open a gate at equality, and
 * floor(10 * (0.7 - 0.2)) is 4. So every comparison here tolerates EPSILON, scaled by the capacity for values in the
 * unit of the capacity.
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

/** Returns D clamped to 0..1; 0 (no capacity) if it is not a finite number. */
export function clampBudget(budget: number): number {
  return Number.isFinite(budget) ? Math.min(1, Math.max(0, budget)) : 0;
}

/** Whether D > B; a gate is closed at equality. */
export function isOpen(budget: number, baseline: number): boolean {
  return clampBudget(budget) - baseline > EPSILON;
}

/** Returns max_SYS, or 0 (no capacity) if it is negative or not a finite number. */
export function clampCapacity(maxSys: number): number {
  return Number.isFinite(maxSys) ? Math.max(0, maxSys) : 0;
}

/** Returns N = max_SYS x (D - B), whole, in the unit of max_SYS; 0 if the gate is closed. */
export function quotaOf({ baseline, rounding, atLeastOne }: QuotaRule, budget: number, maxSys: number): number {
  const capacity = clampCapacity(maxSys);
  if (capacity === 0 || !isOpen(budget, baseline)) return 0;
  const exact = capacity * (clampBudget(budget) - baseline);
  const slack = slackOf(capacity);
  const whole = rounding === 'floor' ? Math.floor(exact + slack) : Math.ceil(exact - slack);
  return Math.max(atLeastOne ? 1 : 0, whole);
}

/** Returns the most that may ever be in flight: max_SYS x (1 - B), in the unit of max_SYS and not rounded. */
export function ceilingOf(baseline: number, maxSys: number): number {
  return clampCapacity(maxSys) * (1 - Math.min(1, Math.max(0, baseline)));
}

/** Whether `cost` is at most `room`, within the tolerance for floating point. */
export function fits(cost: number, room: number, maxSys: number): boolean {
  return cost <= room + slackOf(maxSys);
}

function slackOf(maxSys: number): number {
  return EPSILON * Math.max(1, clampCapacity(maxSys));
}
