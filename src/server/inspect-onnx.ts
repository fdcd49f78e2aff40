/** What an ONNX model takes and gives, read in a process of its own: a large model, or a broken one, must cost no other. */
import { fileURLToPath } from 'node:url';
import type { ModelPort } from '../core/model.ts';
import { runToEnd } from '../lifecycle/launch.ts';

const ENTRY = fileURLToPath(new URL('../worker/onnx/inspect.js', import.meta.url));
const LONGEST_MS = 30_000;

export interface OnnxPorts {
  readonly inputs: readonly ModelPort[];
  readonly outputs: readonly ModelPort[];
  /** Whether items run one by one, as the model does not say that its first dimension is the batch. */
  readonly single: boolean;
}

/** Who asks for a file that is being read gets the same answer. */
const underWay: Map<string, Promise<OnnxPorts>> = new Map();

/**
 * `requireFrom`: the folder with the user's modules.
 * @throws Error, for people: the package is missing, the file is no model, or reading took longer than 30 s.
 */
export function inspectOnnx(path: string, requireFrom: string): Promise<OnnxPorts> {
  const known = underWay.get(path);
  if (known !== undefined) return known;
  const answer = read(path, requireFrom).finally(() => underWay.delete(path));
  underWay.set(path, answer);
  return answer;
}

async function read(path: string, requireFrom: string): Promise<OnnxPorts> {
  const output = await runToEnd([process.execPath, ENTRY, path, requireFrom], LONGEST_MS);
  const answer = JSON.parse(output) as OnnxPorts | { readonly error: string };
  if ('error' in answer) throw new Error(answer.error);
  return answer;
}
