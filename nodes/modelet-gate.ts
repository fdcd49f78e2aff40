/** A dispatch gate that admits nothing: a gate without a budget is closed. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileGate, ModeletError } from '../src/index.ts';
import { configure } from './lib/adapter.ts';

/** For sources that are asked over the network. */
const CREDENTIALS = {
  token: { type: 'password' },
  username: { type: 'text' },
  password: { type: 'password' },
} as const;

export default function register(RED: NodeAPI): void {
  RED.nodes.registerType(
    'modelet-gate',
    function (this: Node, definition: NodeDef) {
      RED.nodes.createNode(this, definition);
      const config = configure(() => compileGate({ ...definition }));
      const error =
        config instanceof ModeletError ? config : new ModeletError('gate_refused', 'the gate has no budget');
      this.status({ fill: 'red', shape: 'ring', text: `${error.code}: ${error.message}` });
      this.on('input', (_msg, _send, done) => done(error));
    },
    { credentials: CREDENTIALS },
  );
}
