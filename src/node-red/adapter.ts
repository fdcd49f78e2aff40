/** Connects a pipeline node to Node-RED: settings, input and close. */
import type { Node, NodeAPI } from 'node-red';
import { compileStage, type StageConfig } from '../config/compile-stage.ts';
import { resolveModeletFile, userFolder } from '../config/folders.ts';
import type { LookUp, Raw } from '../config/validate.ts';
import { ModeletError } from '../core/errors.ts';
import { checkInterpreter } from '../process/python.ts';
import type { Pipeline } from './pipeline.ts';
import { checkMessageProperty } from './request/message-fields.ts';
import type { PipelineMessage } from './request/messages.ts';

/** Returns the settings, or the error that makes the node unusable: a runtime cannot refuse a deploy. */
export function configure<Config>(compile: () => Config): Config | ModeletError {
  try {
    return compile();
  } catch (thrown) {
    return thrown instanceof ModeletError ? thrown : new ModeletError('config_invalid', (thrown as Error).message);
  }
}

/**
 * Compiles the properties of a stage, deployed or not.
 * @throws ModeletError `config_invalid`.
 */
export function compileStageIn(RED: NodeAPI, definition: Raw, lookUp: LookUp): StageConfig {
  const config = compileStage(definition, (path) => resolveModeletFile(RED.settings, path), lookUp);
  const { input, output, dropKey, sticky } = config;
  checkInterpreter(userFolder(RED.settings), config);
  checkMessageProperty(RED, 'input', input);
  checkMessageProperty(RED, 'output', output);
  if (dropKey !== '') checkMessageProperty(RED, 'dropKey', dropKey);
  if (sticky !== '') checkMessageProperty(RED, 'sticky', sticky);
  return config;
}

export function acceptInput(node: Node, pipeline: Pipeline): void {
  node.on('input', (msg, _send, done) => pipeline.accept(node, msg as PipelineMessage, done));
}

/**
 * Passes messages to the pipeline. As in the core batch and delay nodes, a message with `reset` or `flush` acts on the
 * queue and goes no further.
 */
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

/** Passes messages to the pipeline. A message with `gate` is an order to the gate and goes no further. */
export function acceptOrders(node: Node, pipeline: Pipeline): void {
  node.on('input', (msg, _send, done) => {
    if ((msg as { gate?: unknown }).gate === undefined) pipeline.accept(node, msg as PipelineMessage, done);
    else pipeline.order(node, msg as PipelineMessage, done);
  });
}

/** Removes a node from the pipeline when it closes. The listener needs two parameters, or Node-RED ignores `done`. */
export function leaveOnClose(node: Node, pipeline: Pipeline): void {
  node.on('close', (_removed: boolean, done: () => void) => {
    pipeline.remove(node).then(done, (error: unknown) => {
      node.warn(`while closing: ${(error as Error).message}`);
      done();
    });
  });
}
