/**
 * How many workers a stage has whose number follows its load. Pure: maps the measurements, the workers and the limits to
 * another number, with the reason for people.
 *
 *   one more    items wait, and the workers were busy for 5 s, or the oldest item has waited for a second
 *   one less    without it, the others would not have been busy for a long time
 *   the least   no request came for the idle time
 *
 * While a worker starts, none is added: its effect is not known yet. After a worker has ended, the others are less than
 * 60 % busy, and none is added below 90 %: under a steady load, workers do not come and go.
 */
import type { Scaling } from '../../../../config/stage-definition.ts';
import { duration } from '../../../../core/figures.ts';

export const GROWTH = { busy: 0.9, busyMs: 5000, waitMs: 1000 } as const;
/** `leastMs`: also with a shorter idle time, since a pause between two bursts is no rest. */
export const SHRINKING = { busy: 0.6, leastMs: 30_000 } as const;

/** Measurements since the workers that are ready were the same. Times are in ms. */
export interface Load {
  /** Part of the places that ran batches, on average over `GROWTH.busyMs`; null: not measured for that long. */
  readonly busy: number | null;
  /** How long all places have been busy. */
  readonly fullMs: number;
  /** How long one worker less would have been enough. */
  readonly spareMs: number;
  /** How long no item has waited or run, whichever workers were ready. */
  readonly idleMs: number;
  /** How long the oldest item of the queue has waited; null: none waits. */
  readonly waitMs: number | null;
}

export interface PresentWorkers {
  /** Those that run, or start. */
  readonly count: number;
  readonly ready: number;
}

export interface SizeLimits extends Scaling {
  readonly max: number;
}

export interface NewSize {
  readonly count: number;
  readonly reason: string;
}

/** Returns the number of workers that the stage should have, or null if the present one is right. */
export function decideSize(load: Load, { count, ready }: PresentWorkers, limits: SizeLimits): NewSize | null {
  const { min, max, idleMs } = limits;
  if (count < min) return { count: min, reason: `it has at least ${min}` };
  if (count > max) return { count: max, reason: `it has at most ${max}` };
  if (count === 0) return load.waitMs === null ? null : { count: 1, reason: 'a request came' };
  // A stage whose workers do not start must show it, and not fall asleep.
  if (ready === 0) return null;
  if (load.idleMs >= idleMs && count > min) return { count: min, reason: `no request for ${duration(idleMs)}` };
  const more = count < max && ready === count ? whyMore(load) : null;
  if (more !== null) return { count: count + 1, reason: more };
  const restMs = Math.max(idleMs, SHRINKING.leastMs);
  const enough = Math.max(1, count - 1);
  if (count <= Math.max(min, 1) || load.spareMs < restMs) return null;
  return { count: enough, reason: `${enough} would have been enough for ${duration(restMs)}` };
}

/** Whether the stage would have been at rest with one worker less. */
export function isSpare(busy: number, ready: number): boolean {
  return ready > 1 && (busy * ready) / (ready - 1) < SHRINKING.busy;
}

function whyMore({ busy, fullMs, waitMs }: Load): string | null {
  if (waitMs === null) return null;
  if (busy !== null && busy >= GROWTH.busy) return `${Math.round(busy * 100)} % busy for ${duration(GROWTH.busyMs)}`;
  // An item that waits for its batch to fill while a worker is free does not need another worker.
  const isLong = Math.min(waitMs, fullMs) >= GROWTH.waitMs;
  return isLong ? `a request has waited for ${duration(waitMs)}` : null;
}
