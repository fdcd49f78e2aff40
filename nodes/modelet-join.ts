/** Gathers the branches of one message: waits for their results and errors, and sends one message on. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileJoin } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-join', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    // Errors of the branches do not arrive by wire: the pipeline brings them itself.
    pipeline.add({ kind: 'join', node: this, config: configure('modelet-join', () => compileJoin({ ...definition })) });
  });
}
