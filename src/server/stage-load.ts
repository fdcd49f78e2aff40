/** How much a stage has to do, as its engine has last told. Pure. */
import type { EngineStatus } from '../core/model.ts';
import { STATUS_INTERVAL_MS } from '../core/status-interval.ts';
import type { StageLoad } from '../gate/sources/saturation.ts';

/** @param stage its number. @param toldAt when the status came. */
export function loadOf(status: EngineStatus, stage: number, toldAt: number, now: number): StageLoad | null {
  const found = status.stages.find(({ ref }) => ref === stage);
  if (!found) return null;
  const { queue, busy, ready, meanBatchSize } = found;
  return {
    queue,
    busy: Math.round(busy * Math.max(1, meanBatchSize)),
    ready,
    at: Math.max(toldAt, now - STATUS_INTERVAL_MS),
  };
}
