/** Config node: holds the settings of one runtime, which is one engine process. The pipeline does the rest. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileRuntime } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-runtime', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const { nodeMessageBufferMaxLength: mostWaiting = 0 } = RED.settings as { nodeMessageBufferMaxLength?: number };
    pipeline.add({
      kind: 'runtime',
      node: this,
      config: configure('modelet-runtime', () => compileRuntime({ ...definition }, mostWaiting)),
    });
  });
}
