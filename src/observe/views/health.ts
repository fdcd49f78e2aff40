/** Tells whether the pipelines can serve, and which stages are missing if not. Pure. */
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

/** Returns the stages that keep a route of the runtime from serving. The runtime is ready if there are none. */
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
