/**
 * When a batch leaves. Pure, so that the engine's batches, the choices of the policy `adaptive` and predictions of what a
 * stage would do follow the same rules.
 */
import type { Deadline } from '../clock.ts';
import type { Batching } from '../model.ts';
import type { BatchReason } from '../readings.ts';

/** The facts that a policy decides by. Times are on the engine's clock. */
export interface QueueView {
  readonly length: number;
  /** Arrival of the item that has waited longest. */
  readonly oldestAt: number;
  /** Arrival of the item that came last. */
  readonly newestAt: number;
  /** Time at which the free worker became free. */
  readonly freeSince: number;
}

export type BatchDecision =
  | { readonly go: true; readonly size: number; readonly reason: BatchReason }
  | { readonly go: false; readonly until: Deadline };

const NOTHING_TO_DO: BatchDecision = { go: false, until: Number.POSITIVE_INFINITY };

/**
 * Decides when a batch leaves. Pure: maps the queue, the settings and the time to "go now" or "wait until".
 * Call only while a worker is free. A full batch leaves at once under every policy.
 */
export function decideBatch(batching: Batching, queue: QueueView, now: number): BatchDecision {
  const { policy, maxBatchSize, maxWaitMs } = batching;
  if (queue.length === 0) return NOTHING_TO_DO;
  if (queue.length >= maxBatchSize) return { go: true, size: maxBatchSize, reason: 'full' };
  switch (policy) {
    // The stage decides by another rule once it has chosen (adaptive.ts).
    case 'adaptive':
    case 'greedy':
      return { go: true, size: queue.length, reason: 'idle' };
    case 'oldest':
      return leaveAt(queue.oldestAt + maxWaitMs, queue, now, 'timer');
    case 'gap':
      return decideByGap(maxWaitMs, queue, now);
  }
}

/**
 * Seed 000: a worker that waited longer than `maxWaitMs` for the first item takes the whole queue at once. Otherwise it
 * waits up to `maxWaitMs` for each further item.
 */
function decideByGap(maxWaitMs: number, queue: QueueView, now: number): BatchDecision {
  if (queue.oldestAt - queue.freeSince > maxWaitMs) return { go: true, size: queue.length, reason: 'idle' };
  return leaveAt(Math.max(queue.newestAt, queue.freeSince) + maxWaitMs, queue, now, 'gap');
}

function leaveAt(at: Deadline, queue: QueueView, now: number, reason: BatchReason): BatchDecision {
  return now >= at ? { go: true, size: queue.length, reason } : { go: false, until: at };
}
