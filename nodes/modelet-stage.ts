/** One stage of a pipeline: declares the modelet and its workers, takes messages in, sends results on. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileStage } from '../src/index.ts';
import { acceptInput, configure, leaveOnClose } from './lib/adapter.ts';
import { registerAdminRoutes } from './lib/admin.ts';
import { resolveModeletFile } from './lib/files.ts';
import { pipelineOf } from './lib/pipeline.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  registerAdminRoutes(RED, pipeline);
  RED.nodes.registerType('modelet-stage', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const resolve = (path: string): string => resolveModeletFile(RED, path);
    pipeline.add({ kind: 'stage', node: this, config: configure(() => compileStage({ ...definition }, resolve)) });
    acceptInput(this, pipeline);
    leaveOnClose(this, pipeline);
  });
}
