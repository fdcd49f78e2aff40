/** Where the time of a request went, in parts that add up to the whole. Pure. */
import type { ErrorCode } from '../../core/errors.ts';
import type { StageTiming } from '../../core/model.ts';

/** A request that has settled, as far as it is kept. Times in milliseconds. */
export interface SettledRequest {
  readonly requestId: string;
  readonly code: 'ok' | ErrorCode;
  /** Name of the stage at which it failed; null for a result, and where none is to blame. */
  readonly stage: string | null;
  /** From the first look at it to its settling, the gate included. */
  readonly totalMs: number;
  readonly gateMs: number;
  /** Waiting for room in the first stage's queue. */
  readonly entranceMs: number;
  /** Of the stages that answered it. */
  readonly timings: readonly StageTiming[];
}

export interface SlowRequest {
  readonly requestId: string;
  /** `ok` or the error code. */
  readonly code: string;
  readonly stage: string | null;
  /** How long ago it settled. */
  readonly agoMs: number;
  /** The sum of the seven that follow. */
  readonly totalMs: number;
  readonly gateMs: number;
  readonly entranceMs: number;
  /** Over all stages: no worker was free. */
  readonly waitMs: number;
  /** Over all stages: a batch filled. */
  readonly batchMs: number;
  readonly runMs: number;
  /** What is left: the ways between the processes, and whatever kept them from going. 0 where it is not known. */
  readonly transportMs: number;
  /** What is left of a request that no worker answered: in a queue or a run that came to nothing, and on the way. */
  readonly unansweredMs: number;
  readonly stages: readonly (Omit<StageTiming, 'stage'> & { readonly name: string })[];
}

export function breakDown(request: SettledRequest, agoMs: number, nameOf: (ref: number) => string): SlowRequest {
  const { requestId, code, stage, totalMs, gateMs, entranceMs, timings } = request;
  const stages = timings.map(({ stage: ref, ...timing }) => ({ name: nameOf(ref), ...timing }));
  const sum = (part: 'waitMs' | 'batchMs' | 'runMs'): number =>
    stages.reduce((total, timing) => total + timing[part], 0);
  const [waitMs, batchMs, runMs] = [sum('waitMs'), sum('batchMs'), sum('runMs')];
  const restMs = Math.max(0, totalMs - gateMs - entranceMs - waitMs - batchMs - runMs);
  // The stage that answers with an error has measured it like any other.
  const answered = code === 'ok' || (stage !== null && stages.at(-1)?.name === stage);
  return {
    requestId,
    code,
    stage,
    agoMs,
    totalMs,
    gateMs,
    entranceMs,
    waitMs,
    batchMs,
    runMs,
    transportMs: answered ? restMs : 0,
    unansweredMs: answered ? 0 : restMs,
    stages,
  };
}
