/**
 * Judges flows that the editor has not deployed yet, with the compiler of a deploy, and converts nodes. Nothing of them is
 * kept. Compiling looks up environment variables and files, and its reasons may quote them. So only those may ask who may
 * deploy anyway. Node-RED's own limit for the bodies of its admin API (`apiMaxLength`) bounds the flows.
 */
import type { NodeAPI } from 'node-red';
import { asError, ModeletError } from '../../core/errors.ts';
import { type CompilerSettings, compileDefinitions } from '../../flow/read/compile-definitions.ts';
import type { FileDefinition } from '../../flow/read/expand.ts';
import { wiringFaults } from '../../flow/wiring-faults.ts';
import { convert, type EditorQuestion } from '../functions/conversion.ts';

export function serveCompiler(RED: NodeAPI): void {
  const mayDeploy = RED.auth.needsPermission('flows.write');
  const judge = ({ flows }: EditorQuestion): object => {
    const compiled = compileDefinitions(definitionsIn(flows), RED.settings as CompilerSettings);
    return { faults: Object.fromEntries(wiringFaults(compiled)) };
  };
  for (const [name, answerTo] of Object.entries({ wiring: judge, convert })) {
    RED.httpAdmin.post(`/modelets/${name}`, mayDeploy, (request, response) => {
      try {
        response.json(answerTo((request.body ?? {}) as EditorQuestion));
      } catch (thrown) {
        response.status(400).json({ error: asError(thrown).message });
      }
    });
  }
}

/** @throws ModeletError if these are no flows */
function definitionsIn(flows: unknown): readonly FileDefinition[] {
  if (!Array.isArray(flows) || !flows.every(isDefinition)) {
    throw new ModeletError('bad_request', 'the body must be {"flows": [...]}, with an id and a type for each node');
  }
  return flows;
}

function isDefinition(node: unknown): node is FileDefinition {
  const { id, type } = (node ?? {}) as { readonly id?: unknown; readonly type?: unknown };
  return typeof id === 'string' && typeof type === 'string';
}
