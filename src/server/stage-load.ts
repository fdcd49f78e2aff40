/** How much a stage has to do, as its engine has last told. Pure. */
import type { EngineStatus } from '../core/model.ts';

export interface StageLoad {
  /** Items that wait in its queue. */
  readonly queue: number;
  /** Items that its workers hold: of batches, about. */
  readonly busy: number;
  /** Workers that are ready. */
  readonly ready: number;
  /** When this was so, on the monotonic clock. */
  readonly at: number;
}

/** An engine tells of any change within this long, and of nothing while nothing changes. */
const TOLD_WITHIN_MS = 250;

/** @param stage its number. @param toldAt when the status came. */
export function loadOf(status: EngineStatus, stage: number, toldAt: number, now: number): StageLoad | null {
  const found = status.stages.find(({ ref }) => ref === stage);
  if (!found) return null;
  const { queue, busy, ready, meanBatchSize } = found;
  return {
    queue,
    busy: Math.round(busy * Math.max(1, meanBatchSize)),
    ready,
    at: Math.max(toldAt, now - TOLD_WITHIN_MS),
  };
}
