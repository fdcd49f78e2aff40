/** The errors that a stage gives to items it cannot serve. */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import { ModeletError } from '../../../core/errors.ts';
import { retrySeconds } from '../../../core/figures.ts';
import type { BatchCosts } from '../../../core/model.ts';
import { LONGEST_KEY } from '../../../core/text.ts';
import { type PoolHealth, RunTimeout } from '../pools/pool.ts';

type FailedPool = Extract<PoolHealth, { tag: 'failed' }>;

export function unavailable(stage: string, { error: cause, doesNotStart }: FailedPool): ModeletError {
  const what = doesNotStart ? 'does not start' : 'has no worker';
  const error = new ModeletError('stage_unavailable', `stage ${stage} ${what}: ${cause.message}`, { stage, cause });
  if (cause instanceof ModeletError) error.retryAfterSeconds = cause.retryAfterSeconds;
  return error;
}

/**
 * @param waiting number of items in the queue
 * @param meanRunMs mean run time of a batch; gives the time that the queue will take, and so when to try again
 * @param hasMemory whether only items are too many, not bytes
 */
export function queueFull(
  definition: StageDefinition,
  waiting: number,
  meanRunMs: number,
  hasMemory: boolean,
): ModeletError {
  const { name: stage, capacity, queueMb, batching, modelet } = definition;
  const batchesAhead =
    Math.min(waiting, capacity) / batching.maxBatchSize / modelet.workers.length / modelet.concurrency;
  const full = `queue of stage ${stage} is full (${waiting < capacity ? `${queueMb} MB` : capacity} waiting)`;
  const noMemory = `the payloads that wait in front of stage ${stage} and elsewhere fill the Queue memory of the runtime`;
  return new ModeletError('capacity_exceeded', hasMemory ? full : noMemory, {
    stage,
    retryAfterSeconds: retrySeconds(batchesAhead * meanRunMs),
  });
}

/** For a request whose answer would have to wait behind those that clients do not read. */
export function answersFull(stage: string): ModeletError {
  const message = 'answers that their clients have not read yet fill the Queue memory of the runtime';
  return new ModeletError('capacity_exceeded', message, { stage, retryAfterSeconds: 1 });
}

/** For a request of which the value is missing, or unsuitable, that its key is read from. */
export function noKey({ name: stage, modelet }: StageDefinition): ModeletError {
  const message = `stage ${stage} needs a key: msg.${modelet.keyBy} must be a text of 1 to ${LONGEST_KEY} characters, a number or a boolean`;
  return new ModeletError('invalid_input', message, { stage });
}

/** For a request of which the value is missing, or unsuitable, that its cost is read from. */
export function noCost(stage: string, { by }: BatchCosts): ModeletError {
  const message = `stage ${stage} needs a cost: msg.${by} must be a number of at least 0`;
  return new ModeletError('invalid_input', message, { stage });
}

export function expired(stage: string): ModeletError {
  return new ModeletError('deadline_exceeded', `deadline passed in the queue of stage ${stage}`, { stage });
}

export function dropped(stage: string, reason: string): ModeletError {
  return new ModeletError('dropped', `dropped from the queue of stage ${stage}: ${reason}`, { stage });
}

/**
 * Returns the error for an item whose worker died: `deadline_exceeded` if the batch ran too long for the stage's limit,
 * otherwise `worker_lost`.
 *
 * @param again whether this was the item's second run, in its own batch
 */
export function workerLost(stage: string, worker: number, cause: Error, again: boolean): ModeletError {
  const code = cause instanceof RunTimeout ? 'deadline_exceeded' : 'worker_lost';
  const died = again ? 'died again, with this item alone' : 'died';
  return new ModeletError(code, `worker ${worker} of stage ${stage} ${died}: ${cause.message}`, { stage, cause });
}
