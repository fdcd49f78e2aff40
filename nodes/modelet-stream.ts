/** Stream response: writes results in parts to their HTTP clients, at the pace at which these read. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileStream } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-stream', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    pipeline.add({
      kind: 'stream',
      node: this,
      config: configure('modelet-stream', () => compileStream({ ...definition })),
    });
  });
}
