/** Gathers the branches of one message: waits for their results and errors, and sends one message on. */
import type { NodeAPI } from 'node-red';
import { compileJoin } from '../src/config/compile.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  // Errors of the branches do not arrive by wire: the pipeline brings them itself.
  registerPart(RED, 'join', compileJoin);
}
