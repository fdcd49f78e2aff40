/** One stage of a pipeline: declares the modelet and its workers, takes messages in, sends results on. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileStage, type StageConfig } from '../src/config/compile-stage.ts';
import { acceptInput, configure, leaveOnClose } from '../src/node-red/adapter.ts';
import { registerAdminRoutes } from '../src/node-red/admin/admin.ts';
import { checkInterpreter, resolveModeletFile } from '../src/node-red/files.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';
import { checkMessageProperty } from '../src/node-red/request/message-property.ts';

/**
 * The property with the modules that Node-RED installs before it starts the flows: it reads one of each node, and
 * installs all that it names. Its types do not know of this.
 */
const OPTIONS = { dynamicModuleList: 'libs' } as object;

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  registerAdminRoutes(RED, pipeline);
  const construct = function (this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    const resolve = (path: string): string => resolveModeletFile(RED, path);
    // In the node's group, subflow or flow, else in the process.
    const lookUp = (name: string): unknown => RED.util.getSetting(this, name);
    const compile = (): StageConfig => {
      const config = compileStage({ ...definition }, resolve, lookUp);
      const { input, output, dropKey } = config;
      checkInterpreter(RED, config);
      checkMessageProperty(RED, 'input', input);
      checkMessageProperty(RED, 'output', output);
      if (dropKey !== '') checkMessageProperty(RED, 'dropKey', dropKey);
      return config;
    };
    pipeline.add({ kind: 'stage', node: this, config: configure(compile) });
    acceptInput(this, pipeline);
    leaveOnClose(this, pipeline);
  };
  RED.nodes.registerType('modelet-stage', construct, OPTIONS);
}
