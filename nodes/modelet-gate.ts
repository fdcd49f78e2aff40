/** A dispatch gate: admits as many messages as the budget it measures allows; the others wait or are refused. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileGate } from '../src/config/compile-gate.ts';
import { acceptOrders, configure, leaveOnClose } from '../src/node-red/adapter.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

/** Node-RED keeps them apart from the flows and gives them to no editor. */
const SECRETS = { token: { type: 'password' }, username: { type: 'text' }, password: { type: 'password' } } as const;

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  function ModeletGate(this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    pipeline.add({ kind: 'gate', node: this, config: configure(() => compileGate({ ...definition })) });
    acceptOrders(this, pipeline);
    leaveOnClose(this, pipeline);
  }
  RED.nodes.registerType('modelet-gate', ModeletGate, { credentials: SECRETS });
}
