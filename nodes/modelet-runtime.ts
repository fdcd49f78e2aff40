/** Config node: holds the settings of one runtime, which is one engine process. The pipeline does the rest. */
import type { NodeAPI } from 'node-red';
import { compileRuntime } from '../src/config/compile.ts';
import { runtime } from '../src/config/schemas/runtime.ts';
import { registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  registerPart(
    RED,
    'runtime',
    (raw) => {
      const { nodeMessageBufferMaxLength } = RED.settings as { nodeMessageBufferMaxLength?: number };
      return compileRuntime(raw, nodeMessageBufferMaxLength);
    },
    { credentials: runtime.credentials },
  );
}
