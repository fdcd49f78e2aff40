/** Dispatch gate: admits as many messages as the measured budget allows, and lets the others wait or refuses them. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileGate } from '../src/config/compile-gate.ts';
import { configure } from '../src/config/configure.ts';
import { gate } from '../src/config/schemas/gate.ts';
import { connectGates } from '../src/gate/node-red/gate-routes.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  connectGates(RED, pipeline);
  function ModeletGate(this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    pipeline.add({ kind: 'gate', node: this, config: configure('modelet-gate', () => compileGate({ ...definition })) });
  }
  RED.nodes.registerType('modelet-gate', ModeletGate, { credentials: gate.credentials });
}
