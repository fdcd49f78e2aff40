/** Result collector: returns outcomes to their requests. Sends errors of the stages before it to its second output. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileCollector } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-collector', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    // Errors do not arrive by wire: the pipeline sends them to the second output itself.
    pipeline.add({
      kind: 'collector',
      node: this,
      config: configure('modelet-collector', () => compileCollector({ ...definition })),
    });
  });
}
