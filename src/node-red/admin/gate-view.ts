/** Builds the views of deployed gates for the editor. */
import type { GateView } from '../../observe/views/gate-snapshot.ts';
import type { Pipeline } from '../pipeline.ts';

/** Returns the view of a gate; undefined if the gate is not deployed or unusable. */
export function gateView({ gates, deployment }: Pipeline, id: string): GateView | undefined {
  const snapshot = gates.snapshot(id);
  const deployed = deployment.gates.get(id);
  if (!snapshot || !deployed) return undefined;
  const stage = deployed.stage === null ? null : (deployment.stageNames.get(deployed.stage) ?? deployed.stage);
  const { rare } = snapshot.source;
  return { ...snapshot, stage, warnings: rare === null ? deployed.warnings : [...deployed.warnings, rare] };
}

export function gateViews(pipeline: Pipeline): GateView[] {
  return [...pipeline.deployment.gates.keys()].flatMap((id) => gateView(pipeline, id) ?? []);
}
