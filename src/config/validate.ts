/**
 * Checks raw node configuration, from the editor or a hand-written flow, against the schema of the node's type.
 * Numbers arrive as strings, and absent properties take their defaults. An invalid value never becomes a default.
 * Replaces environment variables in JSON properties.
 */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { ModeletError } from '../core/errors.ts';
import type { NodeSchema, SettingsOf } from './schemas/node-schema.ts';

/** A node's properties as Node-RED passes them. */
export type Raw = Readonly<Record<string, unknown>>;

// Formats are checked by those who parse them.
const ajv: Ajv = new Ajv({
  coerceTypes: true,
  useDefaults: true,
  allErrors: true,
  verbose: true,
  validateFormats: false,
});
ajv.addVocabulary(['goesTo', 'numeric', 'needed', 'refersTo', 'onlyIf', 'icon', 'unit', 'credentials']);
const validators: Map<NodeSchema, ValidateFunction> = new Map();

/** Checks the properties of a node against its schema and adds the defaults. */
export function validate<Schema extends NodeSchema>(schema: Schema, raw: Raw): SettingsOf<Schema> {
  const picked = pick(schema, raw);
  let validator = validators.get(schema);
  if (!validator) {
    validator = ajv.compile(schema);
    validators.set(schema, validator);
  }
  if (!validator(picked)) throw invalid((validator.errors ?? []).map(explain).join('; '));
  return picked as SettingsOf<Schema>;
}

/** Picks the properties of the schema. Skips those that Node-RED adds, and blank ones, which take their defaults. */
function pick(schema: NodeSchema, raw: Raw): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const [key, property] of Object.entries(schema.properties)) {
    const value = raw[key];
    // Node-RED replaces ${NAME} if the variable is set, and else leaves the text.
    const unset = typeof value === 'string' ? /^\$[{(](.+)[})]$/.exec(value)?.[1] : undefined;
    if (unset) throw invalid(`${key}: the environment variable ${unset} is not set`);
    if (value === undefined || value === null || (value === '' && !mayBeBlank(key))) continue;
    picked[key] = typeof value === 'number' && property.type === 'string' ? String(value) : value;
  }
  return picked;
}

/** Whether a blank value is kept: blank code is code that does nothing, not the default code. */
function mayBeBlank(key: string): boolean {
  return key === 'code';
}

function explain(error: ErrorObject): string {
  const property = error.instancePath.slice(1);
  const expected =
    error.keyword === 'enum'
      ? `must be one of ${(error.params as { allowedValues: string[] }).allowedValues.join(', ')}`
      : error.message;
  return `${property}: ${expected}; got ${JSON.stringify(error.data)}`;
}

/**
 * Parses the JSON text of a property.
 * @throws ModeletError `config_invalid`.
 */
export function parseJson(property: string, text: string): unknown {
  return readProperty(property, () => JSON.parse(text) as unknown);
}

/** Returns what `read` returns. An error that it throws becomes `config_invalid` and names the property. */
export function readProperty<T>(property: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw invalid(`${property}: ${(cause as Error).message}`);
  }
}

export function invalid(message: string): ModeletError {
  return new ModeletError('config_invalid', message);
}

/** Looks up a variable as the node sees it: in its group, subflow, flow, or the process. */
export type LookUp = (name: string) => unknown;

const REFERENCE = /^\$\{([^{}\s]+)\}$/;
/** `$${NAME}` is an escape for the text `${NAME}`. */
const ESCAPED = /^\$(\$+\{[^{}\s]+\})$/;

export const OF_PROCESS: LookUp = (name) => process.env[name];

/**
 * Returns the value with its variables replaced. A text that is exactly `${NAME}` becomes the variable's value, as
 * Node-RED does it for whole properties. A variable's content always stays one value and is not expanded again.
 * @throws ModeletError `config_invalid` for a variable that is not set.
 */
export function withVariables(property: string, value: unknown, lookUp: LookUp): unknown {
  if (typeof value === 'string') return textWithVariables(property, value, lookUp);
  if (Array.isArray(value)) return value.map((part) => withVariables(property, part, lookUp));
  if (value === null || typeof value !== 'object') return value;
  // Built from entries because a key may be `__proto__`.
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, withVariables(property, part, lookUp)] as const),
  );
}

function textWithVariables(property: string, text: string, lookUp: LookUp): unknown {
  const escaped = ESCAPED.exec(text)?.[1];
  if (escaped !== undefined) return escaped;
  const name = REFERENCE.exec(text)?.[1];
  if (name === undefined) return text;
  const found = lookUp(name);
  if (found !== undefined) return found;
  throw invalid(`${property}: the environment variable ${name} is not set; "$\${${name}}" is the text itself`);
}
