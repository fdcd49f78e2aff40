/** Config node: the server that several Node-REDs share, and over which worker hosts pull the work of remote stages. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileBroker } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { broker } from '../src/config/schemas/broker.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  function ModeletBroker(this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    pipeline.add({
      kind: 'broker',
      node: this,
      config: configure('modelet-broker', () => compileBroker({ ...definition })),
    });
  }
  RED.nodes.registerType('modelet-broker', ModeletBroker, { credentials: broker.credentials });
}
