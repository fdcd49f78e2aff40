/** Modelet stage: declares a modelet and its workers, accepts messages, and sends results on. */
import type { NodeAPI } from 'node-red';
import { registerAdminRoutes } from '../src/node-red/admin/admin.ts';
import { compileStageIn } from '../src/node-red/live-nodes.ts';
import { pipelineOf, registerPart } from '../src/node-red/pipeline.ts';

/**
 * Names the property that lists modules. Node-RED reads it from each node and installs the modules before it starts the
 * flows. Node-RED's types lack this option.
 */
const OPTIONS = { dynamicModuleList: 'libs' };

export default function register(RED: NodeAPI): void {
  registerAdminRoutes(RED, pipelineOf(RED));
  // A variable is looked up in the node's group, subflow and flow, then in the environment of the process.
  registerPart(
    RED,
    'stage',
    (raw, node) => compileStageIn(RED, raw, (name) => RED.util.getSetting(node, name)),
    OPTIONS,
  );
}
