/** Reads what a modelet declares besides its methods: properties of a function, or static properties of a class. */
import type { PayloadSchema } from '../../core/model.ts';
import type { Statics } from './modelet.ts';

export const NO_STATICS: Statics = { examples: [], inputSchema: null, outputSchema: null };

/** @throws TypeError if a property has the wrong type. Ignoring it would let values pass unchecked. */
export function staticsOf(exported: object, path: string): Statics {
  const { examples = [], inputSchema, outputSchema } = exported as Partial<Record<keyof Statics, unknown>>;
  if (!Array.isArray(examples)) throw new TypeError(`examples in ${path} must be an array, found ${typeof examples}`);
  return {
    examples,
    inputSchema: schema('inputSchema', inputSchema, path),
    outputSchema: schema('outputSchema', outputSchema, path),
  };
}

function schema(name: string, value: unknown, path: string): PayloadSchema | null {
  if (value === undefined || value === null) return null;
  const isSchema = typeof value === 'boolean' || (typeof value === 'object' && !Array.isArray(value));
  if (!isSchema) throw new TypeError(`${name} in ${path} must be a JSON Schema, which is an object`);
  return value as PayloadSchema;
}
