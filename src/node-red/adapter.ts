/** The wiring every pipeline node shares with Node-RED: settings, input, close. */
import type { Node } from 'node-red';
import { ModeletError } from '../core/errors.ts';
import type { Pipeline } from './pipeline.ts';
import type { PipelineMessage } from './request/messages.ts';

/** The settings, or the error that makes the node unusable: a runtime cannot refuse a deploy. */
export function configure<Config>(compile: () => Config): Config | ModeletError {
  try {
    return compile();
  } catch (thrown) {
    return thrown instanceof ModeletError ? thrown : new ModeletError('config_invalid', (thrown as Error).message);
  }
}

export function acceptInput(node: Node, pipeline: Pipeline): void {
  node.on('input', (msg, _send, done) => pipeline.accept(node, msg as PipelineMessage, done));
}

/** As core's batch and delay nodes do it: a message with `reset` or `flush` acts on what waits and goes no further. */
export function acceptControl(node: Node, pipeline: Pipeline): void {
  node.on('input', (msg, _send, done) => {
    const action = 'reset' in msg ? 'reset' : 'flush' in msg ? 'flush' : null;
    if (action === null) pipeline.accept(node, msg as PipelineMessage, done);
    else {
      pipeline.actOnQueue(node, action);
      done();
    }
  });
}

/** A message with `gate` is an order to the gate and goes no further. */
export function acceptOrders(node: Node, pipeline: Pipeline): void {
  node.on('input', (msg, _send, done) => {
    if ((msg as { gate?: unknown }).gate === undefined) pipeline.accept(node, msg as PipelineMessage, done);
    else pipeline.order(node, msg as PipelineMessage, done);
  });
}

/** Two parameters, or Node-RED would not wait for `done`. */
export function leaveOnClose(node: Node, pipeline: Pipeline): void {
  node.on('close', (_removed: boolean, done: () => void) => {
    pipeline.remove(node).then(done, (error: unknown) => {
      node.warn(`while closing: ${(error as Error).message}`);
      done();
    });
  });
}
