/** Describes a modelet for people: its schemas and first examples as JSON text, within length limits. */
import type { ModeletDefinition } from '../../../config/stage-definition.ts';
import type { ModeletDescription } from '../../../core/model.ts';
import { isPlainObject } from '../../../core/objects.ts';
import type { LoadedModelet, ModeletContext } from './modelet.ts';

/** Longest schema in the description, in characters of its JSON. */
const LONGEST_SCHEMA = 262_144;
const LONGEST_EXAMPLE = 4096;
const MOST_EXAMPLES = 3;

/** `definition`: its schemas override the modelet's, as in the checks. */
export function describeModelet(
  modelet: LoadedModelet,
  definition: Pick<ModeletDefinition, 'inputSchema' | 'outputSchema'>,
  { log }: Pick<ModeletContext, 'log'>,
): ModeletDescription {
  const schema = (name: 'inputSchema' | 'outputSchema'): string | null => {
    const text = asText(definition[name] ?? modelet[name] ?? modelet.documented?.[name] ?? undefined);
    if (text === null || text.length <= LONGEST_SCHEMA) return text;
    log.warn(`${name} is checked, and not shown in the OpenAPI document: it has ${text.length} characters`);
    return null;
  };
  return {
    inputSchema: schema('inputSchema'),
    outputSchema: schema('outputSchema'),
    ...(modelet.inputs ? { inputs: modelet.inputs } : {}),
    ...(modelet.outputs ? { outputs: modelet.outputs } : {}),
    ...(modelet.rows ? { rows: true } : {}),
    ...(modelet.batching ? { batching: modelet.batching } : {}),
    ...(modelet.instead ? { instead: modelet.instead } : {}),
    examples: modelet.examples
      .slice(0, MOST_EXAMPLES)
      .flatMap((example) => (isPlain(example) ? asExample(example) : [])),
  };
}

function asExample(example: unknown): string[] {
  const text = asText(example);
  return text !== null && text.length <= LONGEST_EXAMPLE ? [text] : [];
}

/** Returns the JSON text, or null if the value has none. */
function asText(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? null;
  } catch {
    return null;
  }
}

/** Whether JSON represents the whole value. Bytes and dates, for example, would change on the way through JSON. */
function isPlain(value: unknown, depth = 0): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth > DEEPEST) return false;
  if (!Array.isArray(value) && !isPlainObject(value)) return false;
  const parts = Object.values(value);
  // More members would exceed the longest example anyway.
  return parts.length <= LONGEST_EXAMPLE && parts.every((part) => isPlain(part, depth + 1));
}

const DEEPEST = 100;
