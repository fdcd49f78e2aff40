/** What a stage says to the items it cannot serve. */
import { ModeletError } from '../../core/errors.ts';
import type { StageDefinition } from '../../core/model.ts';
import { type PoolHealth, RunTimeout } from '../pools/pool.ts';

type FailedPool = Extract<PoolHealth, { tag: 'failed' }>;

export function unavailable(stage: string, { error: cause, doesNotStart }: FailedPool): ModeletError {
  const what = doesNotStart ? 'does not start' : 'has no worker';
  const error = new ModeletError('stage_unavailable', `stage ${stage} ${what}: ${cause.message}`, { stage, cause });
  if (cause instanceof ModeletError) error.retryAfterSeconds = cause.retryAfterSeconds;
  return error;
}

/** `meanRunMs` tells how long the queue ahead will take, and so when to come again. */
export function queueFull(definition: StageDefinition, meanRunMs: number): ModeletError {
  const { name: stage, capacity, batching, modelet } = definition;
  const batchesAhead = capacity / batching.maxBatchSize / modelet.workers.length;
  return new ModeletError('capacity_exceeded', `queue of stage ${stage} is full (${capacity} waiting)`, {
    stage,
    retryAfterSeconds: Math.max(1, Math.ceil((batchesAhead * meanRunMs) / 1000)),
  });
}

export function expired(stage: string): ModeletError {
  return new ModeletError('deadline_exceeded', `deadline passed in the queue of stage ${stage}`, { stage });
}

export function dropped(stage: string, reason: string): ModeletError {
  return new ModeletError('dropped', `dropped from the queue of stage ${stage}: ${reason}`, { stage });
}

/**
 * A batch that ran too long has missed a deadline of the stage's; any other death is the worker's. `again`: it was the
 * item's second run, which it had to itself.
 */
export function workerLost(stage: string, worker: number, cause: Error, again: boolean): ModeletError {
  const code = cause instanceof RunTimeout ? 'deadline_exceeded' : 'worker_lost';
  const died = again ? 'died again, with this item alone' : 'died';
  return new ModeletError(code, `worker ${worker} of stage ${stage} ${died}: ${cause.message}`, { stage, cause });
}
