/** Result collector: returns outcomes to their requests. Sends errors of the stages before it to its second output. */
import type { NodeAPI } from 'node-red';
import { compileCollector } from '../src/config/compile.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  // Errors do not arrive by wire: the pipeline sends them to the second output itself.
  registerPart(RED, 'collector', compileCollector);
}
