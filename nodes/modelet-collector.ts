/** Result collector: returns outcomes to their requests. Sends errors of the stages before it to its second output. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileCollector } from '../src/config/compile.ts';
import { ModeletError } from '../src/core/errors.ts';
import { configure, leaveOnClose } from '../src/node-red/adapter.ts';
import { stripConnectionHeaders } from '../src/node-red/http/response-headers.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';
import type { PipelineMessage } from '../src/node-red/request/messages.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-collector', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const config = configure(() => compileCollector({ ...definition }));
    pipeline.add({ kind: 'collector', node: this, config });
    // Errors do not arrive by wire: the pipeline sends them to the second output itself.
    this.on('input', (msg, _send, done) => {
      pipeline.collected(msg as PipelineMessage);
      stripConnectionHeaders(msg as PipelineMessage);
      const emit = (): void => pipeline.sendBy(this.id, [msg, null], done);
      const inOrder = !(config instanceof ModeletError) && config.order === 'arrival';
      if (inOrder) pipeline.sequencer(this.id).arrived((msg as PipelineMessage).modelet?.pass, emit);
      else emit();
    });
    leaveOnClose(this, pipeline);
  });
}
