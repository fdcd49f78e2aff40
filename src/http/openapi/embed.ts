/**
 * Embeds a JSON Schema in a document. References within the schema use its root, identifiers and anchors; they are
 * rewritten to start at the document's root, and the identifiers and anchors are removed. A reference that leads out of
 * the schema becomes a comment. Pure.
 */
import type { PayloadSchema } from '../../core/model.ts';
import { isFields } from '../../core/objects.ts';
import { decoded } from '../../core/text.ts';
import type { JsonObject } from './endpoint.ts';

/** Base address of a schema without an identifier. */
const NO_BASE = 'schema:/';

/** Keywords for the address or the dialect of a schema. */
const PLACES: ReadonlySet<string> = new Set(['$schema', '$id', '$anchor', '$dynamicAnchor', '$vocabulary']);

/** Targets of references: JSON pointers by address, including `base#anchor`. */
type Targets = Map<string, string>;

/**
 * Returns the schema for its place in the document.
 * @param at JSON pointer of that place, such as `#/components/schemas/Digits`.
 * @throws RangeError for a schema that is nested too deeply.
 */
export function embed(schema: PayloadSchema, at: string): PayloadSchema {
  if (typeof schema === 'boolean') return schema;
  const { schema: modern, moved } = isOld(schema) ? modernised(schema) : { schema, moved: new Map() };
  const targets: Targets = new Map([[NO_BASE, '']]);
  survey(modern, NO_BASE, '', targets);
  const lead = (reference: string, base: string): string | null => {
    const found = pointerOf(reference, base, targets);
    const pointer = found === null ? null : (moved.get(found) ?? found);
    return pointer === null || !leadsToSchema(pointer, modern) ? null : at + fragment(pointer);
  };
  return rewrite(modern, NO_BASE, lead) as PayloadSchema;
}

/** Returns the target of a reference in the document; null if it leads out of the schema, or nowhere. */
type Lead = (reference: string, base: string) => string | null;

function isOld({ $schema: dialect }: JsonObject): boolean {
  return typeof dialect === 'string' && /draft-0[67]/.test(dialect);
}

function survey(node: unknown, outer: string, at: string, targets: Targets): void {
  if (!isFields(node)) return;
  const base = baseOf(node, outer);
  if (base !== outer) targets.set(base, at);
  for (const key of ['$anchor', '$dynamicAnchor']) {
    if (typeof node[key] === 'string') targets.set(`${base}#${node[key]}`, at);
  }
  mapSchemas(node, (part, keys) => survey(part, base, at + pointerTo(keys), targets));
}

function rewrite(node: unknown, outer: string, lead: Lead): unknown {
  if (!isFields(node)) return node;
  const base = baseOf(node, outer);
  const own = Object.entries(node).flatMap(([key, value]): [string, unknown][] => {
    if (PLACES.has(key)) return [];
    if ((key !== '$ref' && key !== '$dynamicRef') || typeof value !== 'string') return [[key, value]];
    const target = lead(value, base);
    return [target === null ? ['$comment', `see ${value}`] : ['$ref', target]];
  });
  return mapSchemas(Object.fromEntries(own), (part) => rewrite(part, base, lead));
}

function baseOf({ $id: id }: JsonObject, outer: string): string {
  return typeof id === 'string' ? resolve(id.split('#', 1)[0] as string, outer) : outer;
}

/** Returns the JSON pointer of a reference's target; null if the target is not in the schema. */
function pointerOf(reference: string, base: string, targets: Targets): string | null {
  const [address = '', ...rest] = reference.split('#');
  const name = decoded(rest.join('#'));
  const target = resolve(address, base);
  if (name !== '' && !name.startsWith('/')) return targets.get(`${target}#${name}`) ?? null;
  const root = targets.get(target);
  return root === undefined ? null : root + name;
}

function leadsToSchema(pointer: string, schema: unknown): boolean {
  const keys = pointer.split('/').slice(1);
  const found = keys.reduce<unknown>((part, key) => {
    const name = key.replaceAll('~1', '/').replaceAll('~0', '~');
    const isThere = part !== null && typeof part === 'object' && Object.hasOwn(part, name);
    return isThere ? (part as JsonObject)[name] : undefined;
  }, schema);
  return isFields(found) || typeof found === 'boolean';
}

function resolve(address: string, base: string): string {
  if (address === '') return base;
  try {
    return new URL(address, base).href;
  } catch {
    return address;
  }
}

/** Encodes a pointer as the fragment of a URI. */
function fragment(pointer: string): string {
  return encodeURI(pointer).replaceAll('#', '%23');
}

interface Modern {
  readonly schema: PayloadSchema;
  /** New place of each schema by its old place, as JSON pointers. */
  readonly moved: ReadonlyMap<string, string>;
}

/**
 * Converts a schema of draft-07 to draft 2020-12, the dialect of OpenAPI 3.1. Keywords beside a `$ref` stay, as in the
 * check of payloads.
 */
function modernised(schema: PayloadSchema): Modern {
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

/** Keywords with schemas in them. Everything else in a schema is data, even if it looks like a schema. */
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
function mapSchemas(node: JsonObject, replace: (part: unknown, keys: readonly string[]) => unknown): JsonObject {
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

function pointerTo(keys: readonly string[]): string {
  return keys.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
