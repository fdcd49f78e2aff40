/** Finds the schemas within a JSON Schema. Everything else in it is data, even if it looks like a schema. Pure. */
import { isFields } from '../../core/objects.ts';
import type { JsonObject } from './endpoint.ts';

const ONE: ReadonlySet<string> = new Set([
  'additionalProperties',
  'contains',
  'contentSchema',
  'else',
  'if',
  'items',
  'not',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
]);
const LISTS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const BY_NAME: ReadonlySet<string> = new Set([
  '$defs',
  'definitions',
  'dependentSchemas',
  'patternProperties',
  'properties',
]);

/** Returns a copy with each direct subschema replaced. `keys` is the path from the schema to the subschema. */
export function mapSchemas(node: JsonObject, replace: (part: unknown, keys: readonly string[]) => unknown): JsonObject {
  // Built from entries because a key may be `__proto__`.
  return Object.fromEntries(
    Object.entries(node).map(([key, value]) => {
      if (ONE.has(key)) return [key, replace(value, [key])];
      if (LISTS.has(key) && Array.isArray(value)) {
        return [key, value.map((part: unknown, index) => replace(part, [key, String(index)]))];
      }
      if (!BY_NAME.has(key) || !isFields(value)) return [key, value];
      return [key, Object.fromEntries(Object.entries(value).map(([name, part]) => [name, replace(part, [key, name])]))];
    }),
  );
}

export function pointerTo(keys: readonly string[]): string {
  return keys.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
