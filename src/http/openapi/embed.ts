/**
 * Embeds a JSON Schema in a document. References within the schema use its root, identifiers and anchors; they are
 * rewritten to start at the document's root, and the identifiers and anchors are removed. A reference that leads out of
 * the schema becomes a comment. Pure.
 */
import type { PayloadSchema } from '../../core/model.ts';
import { isFields } from '../../core/objects.ts';
import { decoded } from '../../core/text.ts';
import { modernised } from './draft-07.ts';
import type { JsonObject } from './endpoint.ts';
import { mapSchemas, pointerTo } from './schema-parts.ts';

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
