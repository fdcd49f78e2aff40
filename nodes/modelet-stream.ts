/** Stream response: writes results in parts to their HTTP clients, at the pace at which these read. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileStream } from '../src/config/compile.ts';
import { configure, leaveOnClose } from '../src/node-red/adapter.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';
import type { PipelineMessage } from '../src/node-red/request/messages.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-stream', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    pipeline.add({ kind: 'stream', node: this, config: configure(() => compileStream({ ...definition })) });
    this.on('input', (msg, _send, done) => pipeline.stream(this, msg as PipelineMessage, done));
    leaveOnClose(this, pipeline);
  });
}
