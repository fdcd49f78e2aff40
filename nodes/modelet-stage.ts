/** Modelet stage: declares a modelet and its workers, accepts messages, and sends results on. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { configure } from '../src/config/configure.ts';
import { registerAdminRoutes } from '../src/node-red/admin/admin.ts';
import { compileStageIn } from '../src/node-red/live-nodes.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

/**
 * Names the property that lists modules. Node-RED reads it from each node and installs the modules before it starts the
 * flows. Node-RED's types lack this option.
 */
const OPTIONS = { dynamicModuleList: 'libs' } as object;

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  registerAdminRoutes(RED, pipeline);
  const construct = function (this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    // Looks in the node's group, subflow and flow, then in the environment of the process.
    const lookUp = (name: string): unknown => RED.util.getSetting(this, name);
    const config = configure('modelet-stage', () => compileStageIn(RED, { ...definition }, lookUp));
    pipeline.add({ kind: 'stage', node: this, config });
  };
  RED.nodes.registerType('modelet-stage', construct, OPTIONS);
}
