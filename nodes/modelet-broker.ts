/** Config node: the server that several Node-REDs share, and over which worker hosts pull the work of remote stages. */
import type { NodeAPI } from 'node-red';
import { compileBroker } from '../src/config/compile.ts';
import { broker } from '../src/config/schemas/broker.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  registerPart(RED, 'broker', compileBroker, { credentials: broker.credentials });
}
