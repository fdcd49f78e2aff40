/**
 * Judges flows that the editor has not deployed yet, with the compiler of a deploy, and keeps nothing of them. Compiling
 * looks up environment variables and files, and its reasons may quote them. So only those may ask who may deploy anyway.
 * Node-RED's own limit for the bodies of its admin API (`apiMaxLength`) bounds the flows.
 */
import type { NodeAPI } from 'node-red';
import { asError, ModeletError } from '../../core/errors.ts';
import { type CompilerSettings, compileDefinitions } from '../../flow/read/compile-definitions.ts';
import type { FileDefinition } from '../../flow/read/expand.ts';
import { wiringFaults } from '../../flow/wiring-faults.ts';

export function serveWiring(RED: NodeAPI): void {
  const mayDeploy = RED.auth.needsPermission('flows.write');
  RED.httpAdmin.post('/modelets/wiring', mayDeploy, (request, response) => {
    try {
      const compiled = compileDefinitions(definitionsIn(request.body), RED.settings as CompilerSettings);
      response.json({ faults: Object.fromEntries(wiringFaults(compiled)) });
    } catch (thrown) {
      response.status(400).json({ error: asError(thrown).message });
    }
  });
}

/** @throws ModeletError if the body does not hold flows */
function definitionsIn(body: unknown): readonly FileDefinition[] {
  const { flows } = (body ?? {}) as { readonly flows?: unknown };
  if (!Array.isArray(flows) || !flows.every(isDefinition)) {
    throw new ModeletError('bad_request', 'the body must be {"flows": [...]}, with an id and a type for each node');
  }
  return flows;
}

function isDefinition(node: unknown): node is FileDefinition {
  const { id, type } = (node ?? {}) as { readonly id?: unknown; readonly type?: unknown };
  return typeof id === 'string' && typeof type === 'string';
}
