/** Batcher: sets how the queue of the next stage forms batches. The engine does the batching. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileBatcher } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { checkProperty } from '../src/node-red/live-nodes.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-batcher', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    pipeline.add({
      kind: 'batcher',
      node: this,
      config: configure('modelet-batcher', () => {
        const config = compileBatcher({ ...definition });
        checkProperty(RED, 'costBy', config.costBy);
        return config;
      }),
    });
  });
}
