/** Describes bodies and queries by the schemas of the stages that read or produce them. */
import { FORM_TYPE, JSON_TYPE, MSGPACK_TYPE, mediaKindOf } from '../request-head.ts';
import { LINES_TYPE } from '../streaming/stream-form.ts';
import type { Components } from './components.ts';
import type { ApiEndpoint, ApiInput, ApiStage, JsonObject } from './endpoint.ts';

/** The schema of which nothing is known. */
const ANYTHING: JsonObject = {};
const MULTIPART_TYPE = 'multipart/form-data';
/** Media types whose content has a structure that a schema can describe. */
export const STRUCTURED: ReadonlySet<string> = new Set([JSON_TYPE, MSGPACK_TYPE, FORM_TYPE]);

/** Returns the query parameters. The properties of an object input become one parameter each. */
export function queryParameters({ inputs }: ApiEndpoint, components: Components): JsonObject[] {
  const byName = new Map<string, JsonObject>();
  for (const input of inputs) {
    for (const [name, parameter] of parametersOf(input, inputs.length > 1, components)) {
      if (!byName.has(name)) byName.set(name, parameter);
    }
  }
  return [...byName.values()];
}

function parametersOf(input: ApiInput, isOneOfMany: boolean, components: Components): [string, JsonObject][] {
  const [, ...keys] = keysOf(input.property, ['payload', 'req.query']) ?? [];
  const schema = stageSchema(input, 'input', components);
  if (!input.direct || keys.length > 1) return [];
  if (keys.length === 1) return [parameter(keys[0] as string, schema ?? ANYTHING, schema !== null && !isOneOfMany)];
  if (!schema) return [];
  const { properties, required } = (components.read(schema) ?? {}) as { properties?: JsonObject; required?: unknown };
  const names = Array.isArray(required) ? (required as unknown[]) : [];
  return Object.entries(properties ?? {}).map(([name, part]) =>
    parameter(name, part, !isOneOfMany && names.includes(name)),
  );
}

function parameter(name: string, schema: unknown, required: boolean): [string, JsonObject] {
  return [name, { name, in: 'query', required, schema }];
}

/** Describes the body that the first stages take. */
export function requestBody({ inputs, takesFiles, maxRows }: ApiEndpoint, components: Components): JsonObject {
  const input = anyOf(inputs.map((one) => bodySchema(one, 'input', ['payload', 'req.body'], components)));
  const schema = orRows(input, input, maxRows);
  const types = [...new Set(inputs.flatMap((input) => typesOf(input, takesFiles)))];
  const named = types.length > 0 ? types : [JSON_TYPE];
  const examples = examplesOf(inputs);
  return {
    required: true,
    content: Object.fromEntries(
      named.map((type) => {
        if (maxRows > 0 && type in TEXTS_OF_ROWS) return [type, { schema: TEXTS_OF_ROWS[type] }];
        const isJson = mediaKindOf(type) === 'json';
        if (!STRUCTURED.has(type) && !isJson) return [type, {}];
        return [type, { schema, ...(isJson && examples ? { examples } : {}) }];
      }),
    ),
  };
}

/** Bodies of rows that are texts. */
const TEXTS_OF_ROWS: Readonly<Record<string, JsonObject>> = {
  'application/jsonl': { type: 'string', description: 'In each line an input as JSON.' },
  [LINES_TYPE]: { type: 'string', description: 'In each line an input as JSON.' },
  'text/csv': { type: 'string', description: 'Names of columns, then in each row an input with these properties.' },
};

/** Returns the schema of a value, or of an array with one for each row. @param most 0: there are no rows */
export function orRows(value: JsonObject, ofRow: JsonObject, most: number): JsonObject {
  if (most === 0 || Object.keys(value).length === 0) return value;
  return { anyOf: [value, { type: 'array', maxItems: most, items: ofRow }] };
}

/** Types that an HTTP-in node with file upload parses. It leaves any other body unread. */
const PARSED_WITH_FILES: ReadonlySet<string> = new Set([JSON_TYPE, FORM_TYPE]);
/** Ranges that include a form with files. */
const FILES: ReadonlySet<string> = new Set([MULTIPART_TYPE, 'multipart/*', '*/*']);

/**
 * Returns the media types that reach an input. A form with files reaches a stage that takes or reads files, or that
 * stands behind another node, which may read them.
 */
function typesOf({ direct, property, mediaTypes }: ApiInput, takesFiles: boolean): readonly string[] {
  if (!takesFiles) return mediaTypes;
  if (direct && /^req\.files\b/.test(property)) return [MULTIPART_TYPE];
  const isBody = direct && keysOf(property, ['payload']) !== null;
  const withFiles = !isBody || mediaTypes.some((type) => FILES.has(type));
  return [...mediaTypes.filter((type) => PARSED_WITH_FILES.has(type)), ...(withFiles ? [MULTIPART_TYPE] : [])];
}

function examplesOf(inputs: readonly ApiInput[]): JsonObject | null {
  const values = inputs.flatMap(({ direct, property, examples }) => {
    const keys = direct ? keysOf(property, ['payload', 'req.body']) : null;
    return keys ? examples.map((example) => within(keys.slice(1), example)) : [];
  });
  if (values.length === 0) return null;
  return Object.fromEntries(values.map((value, index) => [`example${index + 1}`, { value }]));
}

/** Returns the schema of an answer with the results of these stages; anything, if one of them is not known. */
export function resultSchema(stages: readonly (ApiStage | null)[], components: Components): JsonObject {
  return anyOf(stages.map((stage) => (stage ? bodySchema(stage, 'result', ['payload'], components) : ANYTHING)));
}

/** Returns the media types of a result if the flow sets none. Text and numbers are text unless JSON is asked for. */
export function usualTypes(schema: JsonObject, components: Components): string[] {
  const isText = ['string', 'number', 'integer'].includes(typeOf(schema, components));
  return [JSON_TYPE, MSGPACK_TYPE, ...(isText ? ['text/html'] : [])];
}

/** Returns the type that a schema or the target of its reference names; '' without one, or with several. */
function typeOf(schema: JsonObject, components: Components): string {
  const whole = '$ref' in schema ? components.read(schema) : schema;
  const { type } = (whole ?? {}) as { type?: unknown };
  return typeof type === 'string' ? type : '';
}

function bodySchema(
  stage: ApiStage,
  what: 'input' | 'result',
  bodies: readonly string[],
  components: Components,
): JsonObject {
  const schema = stageSchema(stage, what, components);
  const keys = keysOf(stage.property, bodies);
  if (!stage.direct || !keys) {
    return schema ? { description: `See ${String(schema['$ref'])}: the flow may change it.` } : ANYTHING;
  }
  const inside = (inner: JsonObject, key: string): JsonObject => ({
    type: 'object',
    ...(schema ? { required: [key] } : {}),
    properties: { [key]: inner },
  });
  return keys.slice(1).reduceRight(inside, schema ?? ANYTHING);
}

function stageSchema(
  { name, schema }: Pick<ApiStage, 'name' | 'schema'>,
  what: string,
  components: Components,
): JsonObject | null {
  return schema === null ? null : components.referSchema(`${name} ${what}`, schema);
}

/** Returns the keys of a property that is one of `bodies` or lies in one, the body first; null for other properties. */
function keysOf(property: string, bodies: readonly string[]): string[] | null {
  for (const body of bodies) {
    if (property === body) return [body];
    const rest = property.startsWith(`${body}.`) ? property.slice(body.length + 1) : '';
    if (/^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$/.test(rest)) return [body, ...rest.split('.')];
  }
  return null;
}

function within(keys: readonly string[], value: unknown): unknown {
  return keys.reduceRight((inner, key) => ({ [key]: inner }), value);
}

function anyOf(schemas: readonly JsonObject[]): JsonObject {
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  const [only] = distinct;
  if (only && distinct.length === 1) return only;
  return distinct.length === 0 || distinct.some((schema) => Object.keys(schema).length === 0)
    ? ANYTHING
    : { anyOf: distinct };
}
