/** Splits the time of a request into parts that add up to the total. Pure. */
import type { SettledRequest, StageTiming } from '../../core/model.ts';
import { layOut } from '../../core/routes/concurrent-timings.ts';

export interface SlowRequest {
  readonly requestId: string;
  /** `ok` or the error code. */
  readonly code: string;
  readonly stage: string | null;
  /** Time since the request settled. */
  readonly agoMs: number;
  /** Sum of the seven parts that follow. */
  readonly totalMs: number;
  readonly gateMs: number;
  readonly entranceMs: number;
  /** Wait while no worker was free, over all stages; of branches at the same time, those of the longest. */
  readonly waitMs: number;
  /** Wait while a batch filled, over all stages. */
  readonly batchMs: number;
  readonly runMs: number;
  /** Rest of the time: transport between the processes, including delays there. 0 if not known. */
  readonly transportMs: number;
  /** Rest of the time of a request without an answer: in a queue, in a failed run, and in transport. */
  readonly unansweredMs: number;
  readonly stages: readonly (Omit<StageTiming, 'stage'> & { readonly name: string })[];
}

export function breakDown(request: SettledRequest, agoMs: number, nameOf: (ref: number) => string): SlowRequest {
  const { requestId, code, stage, totalMs, gateMs, entranceMs, timings, gathered } = request;
  const { critical } = layOut(timings, gathered?.gathered ?? null);
  const stages = timings.map(({ stage: ref, ...timing }) => ({ name: nameOf(ref), ...timing }));
  const sum = (part: 'waitMs' | 'batchMs' | 'runMs'): number =>
    stages.reduce((total, timing, place) => total + (critical.has(place) ? timing[part] : 0), 0);
  const [waitMs, batchMs, runMs] = [sum('waitMs'), sum('batchMs'), sum('runMs')];
  const restMs = Math.max(0, totalMs - gateMs - entranceMs - waitMs - batchMs - runMs);
  // A stage that answers with an error has measured its times like any other.
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
