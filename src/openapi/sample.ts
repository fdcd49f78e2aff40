/**
 * Makes a sample value for a JSON Schema, for a first request that people can send unchanged. The sample is valid for
 * simple schemas. Some keywords, such as `pattern`, are ignored. Pure.
 */
import type { JsonObject } from './endpoint.ts';
import { isObject } from './schema-parts.ts';

/** Most schemas visited for one value: a schema may be large, and may refer to itself. */
const MOST_PARTS = 2000;
const DEEPEST = 12;

const TEXTS: Readonly<Record<string, string>> = {
  date: '2030-01-31',
  time: '12:00:00Z',
  'date-time': '2030-01-31T12:00:00Z',
  email: 'name@example.org',
  hostname: 'example.org',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.org/',
  'uri-reference': '/text',
  uuid: '123e4567-e89b-42d3-a456-426614174000',
};

/**
 * Returns a sample value.
 * @param resolve returns the target of a `$ref`.
 */
export function sampleOf(schema: unknown, resolve: (reference: JsonObject) => unknown): unknown {
  let left = MOST_PARTS;
  const sample = (part: unknown, depth: number): unknown => {
    left -= 1;
    if (!isObject(part) || left < 0 || depth > DEEPEST) return {};
    if (typeof part['$ref'] === 'string') return sample(resolve(part), depth + 1);
    const given = givenBy(part);
    if (given) return given[0];
    const [choice] = listOf(part['anyOf'] ?? part['oneOf']);
    const all = [part, ...listOf(part['allOf']), ...(choice === undefined ? [] : [choice])];
    return all.length > 1 ? sample(merged(all, resolve), depth + 1) : ofType(part, (inner) => sample(inner, depth + 1));
  };
  return sample(schema, 0);
}

/** Returns a value that the schema itself contains, in an array of one; null if it has none. */
function givenBy(schema: JsonObject): readonly unknown[] | null {
  for (const key of ['const', 'default']) if (key in schema) return [schema[key]];
  const named = [...listOf(schema['examples']), ...listOf(schema['enum'])];
  return named.length > 0 ? named.slice(0, 1) : null;
}

/** Merges schemas that apply together into one. */
function merged(schemas: readonly unknown[], resolve: (reference: JsonObject) => unknown): JsonObject {
  const parts = schemas.map((part) => (isObject(part) && '$ref' in part ? resolve(part) : part)).filter(isObject);
  const { allOf: _all, anyOf: _any, oneOf: _one, ...rest } = Object.assign({}, ...parts) as JsonObject;
  const nested = parts.slice(1).flatMap(({ allOf }) => listOf(allOf));
  return {
    ...rest,
    ...(nested.length > 0 ? { allOf: nested } : {}),
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)) as JsonObject,
    required: parts.flatMap(({ required }) => listOf(required)),
  };
}

function ofType(schema: JsonObject, sample: (part: unknown) => unknown): unknown {
  switch (typeOf(schema)) {
    case 'array':
      return arrayOf(schema, sample);
    case 'string':
      return textOf(schema);
    case 'integer':
    case 'number':
      return numberOf(schema);
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return objectOf(schema, sample);
  }
}

function typeOf({ type, items, prefixItems }: JsonObject): unknown {
  if (type === undefined) return items === undefined && prefixItems === undefined ? 'object' : 'array';
  return Array.isArray(type) ? type[0] : type;
}

function objectOf({ properties, required }: JsonObject, sample: (part: unknown) => unknown): JsonObject {
  const parts = isObject(properties) ? properties : {};
  const names = listOf(required).filter((name) => typeof name === 'string');
  return Object.fromEntries(names.map((name) => [name, sample(Object.hasOwn(parts, name) ? parts[name] : true)]));
}

function arrayOf(schema: JsonObject, sample: (part: unknown) => unknown): unknown[] {
  const { items, minItems, maxItems } = schema;
  const first = listOf(schema['prefixItems']).map(sample);
  const wanted = Math.max(asNumber(minItems, 0), Math.min(1, asNumber(maxItems, 1)));
  const count = Math.min(wanted, MOST_PARTS) - first.length;
  return items === false || count <= 0 ? first : [...first, ...Array.from({ length: count }, () => sample(items))];
}

function textOf({ format, minLength, maxLength }: JsonObject): string {
  const text = (typeof format === 'string' ? TEXTS[format] : undefined) ?? 'text';
  return text.padEnd(Math.min(asNumber(minLength, 0), MOST_PARTS), '.').slice(0, asNumber(maxLength, MOST_PARTS));
}

function numberOf(schema: JsonObject): number {
  const step = asNumber(schema['multipleOf'], typeOf(schema) === 'integer' ? 1 : 0);
  const low = Math.max(asNumber(schema['minimum'], -Infinity), asNumber(schema['exclusiveMinimum'], -Infinity));
  const high = Math.min(asNumber(schema['maximum'], Infinity), asNumber(schema['exclusiveMaximum'], Infinity));
  const within = low <= 1 && high >= 1 ? 1 : Number.isFinite(low) ? low : high;
  const isFree = within !== schema['exclusiveMinimum'] && within !== schema['exclusiveMaximum'];
  const inside = isFree ? within : Number.isFinite(low + high) ? (low + high) / 2 : within + (within === low ? 1 : -1);
  return step > 0 ? Math.ceil(inside / step) * step : inside;
}

function asNumber(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
