/** Config node: the clients that may use the endpoints of runtimes. Node-RED keeps only hashes of their keys. */
import type { Node, NodeAPI } from 'node-red';
import { compileKeys } from '../src/config/http/compile-keys.ts';
import { keys } from '../src/config/schemas/keys.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const hashesOf = ({ credentials }: Node<{ readonly hashes?: unknown }>): string => String(credentials?.hashes ?? '');
  registerPart(RED, 'keys', (raw, node) => compileKeys(raw, hashesOf(node)), { credentials: keys.credentials });
}
