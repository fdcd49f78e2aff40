/** Where outcomes meet their requests again: passes results on, and errors of the stages before it to its second output. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileCollector } from '../src/index.ts';
import { configure, leaveOnClose } from './lib/adapter.ts';
import { pipelineOf } from './lib/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-collector', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    pipeline.add({ kind: 'collector', node: this, config: configure(() => compileCollector({ ...definition })) });
    // Errors do not come in by wire: the pipeline hands them to the second output itself.
    this.on('input', (msg, send, done) => {
      send([msg, null]);
      done();
    });
    leaveOnClose(this, pipeline);
  });
}
