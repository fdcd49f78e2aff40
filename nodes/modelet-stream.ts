/** Stream response: writes results in parts to their HTTP clients, at the pace at which these read. */
import type { NodeAPI } from 'node-red';
import { compileStream } from '../src/config/compile.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  registerPart(RED, 'stream', compileStream);
}
