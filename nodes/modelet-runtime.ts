/** Config node: holds the settings of one runtime, which is one engine process. The pipeline does the rest. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileRuntime } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { runtime } from '../src/config/schemas/runtime.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  function ModeletRuntime(this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    const { nodeMessageBufferMaxLength: mostWaiting = 0 } = RED.settings as { nodeMessageBufferMaxLength?: number };
    pipeline.add({
      kind: 'runtime',
      node: this,
      config: configure('modelet-runtime', () => compileRuntime({ ...definition }, mostWaiting)),
    });
  }
  RED.nodes.registerType('modelet-runtime', ModeletRuntime, { credentials: runtime.credentials });
}
