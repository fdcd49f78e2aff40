/** What the editor shows of the gates that are deployed. */
import type { GateView } from '../../observe/views/gate-snapshot.ts';
import type { Pipeline } from '../pipeline.ts';

/** Undefined of a gate that is not deployed, or cannot be used. */
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
