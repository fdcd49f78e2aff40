/**
 * When does a batch leave? Pure: from the queue, the settings and the time to "go now" or "wait until".
 * Asked only while a worker is free. A full batch leaves at once under every policy.
 */
import type { Deadline } from '../../core/clock.ts';
import type { Batching } from '../../core/model.ts';
import type { BatchReason } from '../../core/readings.ts';

/** What a policy may look at. Times are those of the engine's clock. */
export interface QueueView {
  readonly length: number;
  /** Arrival of the item that has waited longest. */
  readonly oldestAt: number;
  /** Arrival of the item that came last. */
  readonly newestAt: number;
  /** Since when the free worker has been free. */
  readonly freeSince: number;
}

export type BatchDecision =
  | { readonly go: true; readonly size: number; readonly reason: BatchReason }
  | { readonly go: false; readonly until: Deadline };

const NOTHING_TO_DO: BatchDecision = { go: false, until: Number.POSITIVE_INFINITY };

export function decideBatch(batching: Batching, queue: QueueView, now: number): BatchDecision {
  const { policy, maxBatchSize, maxWaitMs } = batching;
  if (queue.length === 0) return NOTHING_TO_DO;
  if (queue.length >= maxBatchSize) return { go: true, size: maxBatchSize, reason: 'full' };
  switch (policy) {
    case 'greedy':
      return { go: true, size: queue.length, reason: 'idle' };
    case 'oldest':
      return leaveAt(queue.oldestAt + maxWaitMs, queue, now, 'timer');
    case 'gap':
      return decideByGap(maxWaitMs, queue, now);
  }
}

/**
 * Seed 000: a worker that has waited longer than the wait time for the first item takes what is there; else it
 * gives each next item the wait time to arrive.
 */
function decideByGap(maxWaitMs: number, queue: QueueView, now: number): BatchDecision {
  if (queue.oldestAt - queue.freeSince > maxWaitMs) return { go: true, size: queue.length, reason: 'idle' };
  return leaveAt(Math.max(queue.newestAt, queue.freeSince) + maxWaitMs, queue, now, 'gap');
}

function leaveAt(at: Deadline, queue: QueueView, now: number, reason: BatchReason): BatchDecision {
  return now >= at ? { go: true, size: queue.length, reason } : { go: false, until: at };
}
