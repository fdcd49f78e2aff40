/** Answers whether runtimes are ready: stages without a worker for their routes, and the results of the examples. */
import type { CheckResult } from '../../core/model.ts';
import type { RuntimeSnapshot, StageSnapshot } from './snapshot.ts';

/** The obstacle: the stage's circuit is not closed, or the engine or the workers have not started or cannot start. */
export type MissingReason = 'starting' | 'failing' | 'circuit_open' | 'engine_starting' | 'engine_failing';

/** A stage on a route that has no worker to serve it. */
export interface Missing {
  readonly runtime: string;
  readonly stage: string;
  readonly reason: MissingReason;
  /** Error text, not meant for the public; null if nothing has gone wrong. */
  readonly error: string | null;
}

/** Returns the stages that keep a route of the runtime from serving. If the list is empty, the runtime is ready. */
export function missingIn(snapshot: RuntimeSnapshot): Missing[] {
  const missing = new Set(snapshot.routes.flatMap((route) => route.missing));
  return snapshot.stages.flatMap((stage) => {
    if (!missing.has(stage.name)) return [];
    return [{ runtime: snapshot.name || snapshot.id, stage: stage.name, ...inTheWay(snapshot, stage) }];
  });
}

function inTheWay({ engine }: RuntimeSnapshot, { circuit, workers }: StageSnapshot): Pick<Missing, 'reason' | 'error'> {
  if (engine.state !== 'ready') {
    return { reason: engine.error === null ? 'engine_starting' : 'engine_failing', error: engine.error };
  }
  const error = workers.find((worker) => worker.error !== null)?.error ?? null;
  // Live workers do not serve while their circuit is not closed.
  if (circuit !== 'closed') return { reason: 'circuit_open', error };
  return { reason: error === null ? 'starting' : 'failing', error };
}

/** The result of a stage's examples. */
export interface CheckedExamples extends CheckResult {
  readonly stage: string;
  /** False: the stage is a version that gets no requests, so its failure does no harm. Default: true. */
  readonly answers?: boolean;
  /** Given for those who may read the messages of errors, which may contain text of the modelet's code. */
  readonly runtime?: string;
}

/** The answer to a question for readiness, with its HTTP status. */
export interface Readiness {
  readonly status: 200 | 503;
  readonly value: object;
}

/** @param checks undefined if the client did not ask for them */
export function readiness(
  missing: readonly Partial<Missing>[],
  checks?: readonly CheckedExamples[],
  flows?: 'running' | 'stopped',
): Readiness {
  const isWell = ({ error, answers }: CheckedExamples): boolean => error === null || answers === false;
  const ready = flows !== 'stopped' && missing.length === 0 && (checks ?? []).every(isWell);
  return { status: ready ? 200 : 503, value: { ready, flows, missing, checks: checks?.map(shownCheck) } };
}

/** JSON has no undefined members. */
function shownCheck({ runtime, stage, answers, examples, error }: CheckedExamples): object {
  const shown = error && { code: error.code, message: runtime === undefined ? undefined : error.message };
  return {
    runtime,
    stage,
    ok: error === null,
    examples,
    answers: answers === false ? answers : undefined,
    error: shown ?? undefined,
  };
}

/** Leaves out of an obstacle what the public may not see. */
export function forThePublic({ stage, reason }: Missing): Pick<Missing, 'stage' | 'reason'> {
  return { stage, reason };
}
