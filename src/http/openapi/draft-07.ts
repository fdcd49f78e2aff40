/**
 * Converts a JSON Schema of draft-07 to draft 2020-12, the dialect of OpenAPI 3.1. Keywords beside a `$ref` stay, as in
 * the check of payloads. Pure.
 */
import type { PayloadSchema } from '../../core/model.ts';
import { isFields } from '../../core/objects.ts';
import type { JsonObject } from './endpoint.ts';
import { mapSchemas, pointerTo } from './schema-parts.ts';

export interface Modern {
  readonly schema: PayloadSchema;
  /** New place of each schema by its old place, as JSON pointers. */
  readonly moved: ReadonlyMap<string, string>;
}

export function modernised(schema: PayloadSchema): Modern {
  const moved = new Map<string, string>();
  const visit = (node: unknown, from: string, to: string): unknown => {
    moved.set(from, to);
    if (!isFields(node)) return node;
    const { entries, origins } = renamed(node);
    return mapSchemas(Object.fromEntries(entries), (part, keys) => {
      const [key = '', ...rest] = keys;
      return visit(part, from + pointerTo([...(origins.get(key) ?? [key]), ...rest]), to + pointerTo(keys));
    });
  };
  return { schema: visit(schema, '', '') as PayloadSchema, moved };
}

interface Renamed {
  readonly entries: readonly (readonly [string, unknown])[];
  /** Old names of keywords, by new name. */
  readonly origins: ReadonlyMap<string, readonly string[]>;
}

function renamed(node: JsonObject): Renamed {
  const origins = new Map<string, readonly string[]>();
  const isTuple = Array.isArray(node['items']);
  const entries = Object.entries(node).flatMap(([key, value]): (readonly [string, unknown])[] => {
    const become = (name: string): (readonly [string, unknown])[] => {
      origins.set(name, [key]);
      return [[name, value]];
    };
    if (key === '$id' && typeof value === 'string' && value.startsWith('#')) return [['$anchor', value.slice(1)]];
    if (key === 'items' && isTuple) return become('prefixItems');
    if (key === 'additionalItems') return isTuple ? become('items') : [];
    if (key === 'dependencies' && isFields(value)) {
      origins.set('dependentSchemas', [key]);
      return dependencies(value);
    }
    return [[key, value]];
  });
  return { entries, origins };
}

function dependencies(value: JsonObject): [string, unknown][] {
  const all = Object.entries(value);
  const required = all.filter(([, needs]) => Array.isArray(needs));
  const schemas = all.filter(([, needs]) => !Array.isArray(needs));
  return [
    ...(required.length > 0 ? [['dependentRequired', Object.fromEntries(required)] as [string, unknown]] : []),
    ...(schemas.length > 0 ? [['dependentSchemas', Object.fromEntries(schemas)] as [string, unknown]] : []),
  ];
}
