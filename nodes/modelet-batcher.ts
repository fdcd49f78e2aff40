/** Batcher: sets how the queue of the next stage forms batches. The engine does the batching. */
import type { NodeAPI } from 'node-red';
import { compileBatcher } from '../src/config/compile.ts';
import { checkProperty } from '../src/node-red/live-nodes.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  registerPart(RED, 'batcher', (raw) => {
    const config = compileBatcher(raw);
    checkProperty(RED, 'costBy', config.costBy);
    return config;
  });
}
