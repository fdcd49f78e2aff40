/** Whether the pipelines can serve, and what is missing where they cannot. Pure. */
import type { RuntimeSnapshot, StageSnapshot } from './snapshot.ts';

/** What is in the way: the stage's circuit is not closed, or the engine or the stage's workers do not start, or have not yet. */
export type MissingReason = 'starting' | 'failing' | 'circuit_open' | 'engine_starting' | 'engine_failing';

/** A stage on a route that has no worker to serve it. */
export interface Missing {
  readonly runtime: string;
  readonly stage: string;
  readonly reason: MissingReason;
  /** Why, in words that are not for everybody; null where nothing has gone wrong. */
  readonly error: string | null;
}

/** The stages without which not every route of the runtime can serve; none: it is ready. */
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
  // Workers that are alive take no part while their circuit is not closed.
  if (circuit !== 'closed') return { reason: 'circuit_open', error };
  return { reason: error === null ? 'starting' : 'failing', error };
}
