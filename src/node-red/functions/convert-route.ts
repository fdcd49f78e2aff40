/**
 * Converts a function node to a stage, and back, for the editor, which may not have deployed it yet. Reads code and runs
 * none of it.
 */
import type { NodeAPI } from 'node-red';
import { asError, ModeletError } from '../../core/errors.ts';
import { type FlowVariable, functionOfStage, stageOfFunction } from './conversion.ts';

type ConvertBody = Readonly<Record<string, unknown>>;

export function serveConversions(RED: NodeAPI): void {
  const mayDeploy = RED.auth.needsPermission('flows.write');
  RED.httpAdmin.post('/modelets/convert', mayDeploy, (request, response) => {
    try {
      response.json(convert((request.body ?? {}) as ConvertBody));
    } catch (thrown) {
      response.status(400).json({ error: asError(thrown).message });
    }
  });
}

/** @throws ModeletError if the body has no function node and no stage */
function convert({ node, variables }: ConvertBody): object {
  const fields = (node ?? {}) as ConvertBody;
  const text = (name: string): string => String(fields[name] ?? '');
  const libs = (Array.isArray(fields['libs']) ? fields['libs'] : []) as { var: string; module: string }[];
  if (fields['type'] === 'function') {
    const { outputs = 1, timeout = 0 } = fields;
    const own = { func: text('func'), initialize: text('initialize'), finalize: text('finalize'), libs };
    const all = Array.isArray(variables) ? (variables as FlowVariable[]) : [];
    return stageOfFunction({ ...own, outputs: Number(outputs), timeout: Number(timeout) || 0 }, all);
  }
  if (fields['type'] === 'modelet-stage') {
    const own = { source: text('source'), setup: text('setup'), code: text('code'), teardown: text('teardown'), libs };
    const { runTimeoutMs = 0 } = fields;
    const more = { env: text('env'), init: text('init'), predict: text('predict') };
    return functionOfStage({ ...own, ...more, runTimeoutMs: Number(runTimeoutMs) || 0 });
  }
  throw new ModeletError('bad_request', 'the body must be {"node": {...}}, with a function node or a modelet stage');
}
