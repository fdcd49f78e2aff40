/** Config node: the clients that may use the endpoints of runtimes. Node-RED keeps only hashes of their keys. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { configure } from '../src/config/configure.ts';
import { compileKeys } from '../src/config/http/compile-keys.ts';
import { keys } from '../src/config/schemas/keys.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  function ModeletKeys(this: Node<{ readonly hashes: unknown }>, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    const hashes = String(this.credentials?.hashes ?? '');
    pipeline.add({
      kind: 'keys',
      node: this,
      config: configure('modelet-keys', () => compileKeys({ ...definition }, hashes)),
    });
  }
  RED.nodes.registerType('modelet-keys', ModeletKeys, { credentials: keys.credentials });
}
