/**
 * Compiles users' JSON Schemas for a stage's inputs and results. The server checks a schema at deploy. Each worker, or
 * the engine for workers in Python, compiles it again.
 *
 * A schema follows draft 2020-12, as in OpenAPI 3.1, or draft-07 if its `$schema` says so. An unknown keyword or format
 * is an error: it would otherwise be a rule that is never applied.
 */
import { createRequire } from 'node:module';
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv';
import type { PayloadSchema } from '../core/model.ts';
import { quoted } from '../core/text.ts';

/** One violation of a schema, and its place in the value. */
export interface SchemaProblem {
  /** JSON pointer into the value; '' is the value itself. A long pointer is cut: the sender chose its names. */
  readonly path: string;
  /** Text that follows "it ...", such as `must be number`. Quotes the schema, never the value. */
  readonly message: string;
  /** The keyword of the schema that the value violates. */
  readonly keyword: string;
}

/**
 * Returns the problems of a value, or null if the value is valid. `thorough` finds up to ten problems instead of only
 * the first. Do not use it for large values, which may have millions of problems.
 */
export type PayloadCheck = (value: unknown, thorough: boolean) => readonly SchemaProblem[] | null;

/** Most problems that are reported for one value. */
const MOST_PROBLEMS = 10;

// `strictRequired` is only a rule of style: it would make users describe every required property.
const STRICT: Options = { strict: true, strictRequired: false, allowUnionTypes: true };

/**
 * Compiles a schema to a check of payloads.
 * @throws Error that says what is wrong with the schema.
 */
export function compilePayloadSchema(schema: PayloadSchema): PayloadCheck {
  const quick = compile(schema, false);
  let complete: ValidateFunction | null = null;
  return (value, thorough) => {
    if (quick(value)) return null;
    let errors = quick.errors ?? [];
    if (thorough) {
      complete ??= compile(schema, true);
      complete(value);
      errors = complete.errors ?? errors;
    }
    return errors.slice(0, MOST_PROBLEMS).map(explain);
  };
}

const own: Map<string, PayloadCheck> = new Map();

/** Returns the check of a schema of this package, which is compiled once. A deploy checks each of its stages by one. */
export function ownCheck(name: string, schema: () => PayloadSchema): PayloadCheck {
  const check = own.get(name) ?? compilePayloadSchema(schema());
  own.set(name, check);
  return check;
}

/** Formats problems as one line of text. */
export function describeProblems(what: 'input' | 'output', problems: readonly SchemaProblem[]): string {
  return problems.map(({ path, message }) => `${what}${path} ${message}`).join('; ');
}

const require = createRequire(import.meta.url);

/** Check schemas, by whether these follow draft-07. To compile the schema of schemas takes ten times as long as most others. */
const checkers: Map<boolean, Ajv> = new Map();

function compile(schema: PayloadSchema, allErrors: boolean): ValidateFunction {
  const named = typeof schema === 'object' ? schema['$schema'] : undefined;
  const isDraft7 = typeof named === 'string' && named.includes('draft-07');
  const checker = checkers.get(isDraft7) ?? compilerOf(isDraft7, {});
  checkers.set(isDraft7, checker);
  // A promise only for a schema of schemas that is asynchronous: no dialect has one.
  void checker.validateSchema(schema, true);
  // A separate one for each schema, whose `$id` another schema may have as well.
  const validator = compilerOf(isDraft7, { allErrors, validateSchema: false }).compile(schema);
  // An asynchronous validator returns a promise, which would count as "valid".
  if ('$async' in validator) throw new Error('a schema with $async cannot be used');
  return validator;
}

function compilerOf(isDraft7: boolean, options: Options): Ajv {
  // Loaded with the first schema: they take longer than the rest of a worker's start.
  const { default: Compiler } = require(isDraft7 ? 'ajv' : 'ajv/dist/2020.js') as { readonly default: typeof Ajv };
  const addFormats = require('ajv-formats') as (ajv: Ajv) => void;
  const ajv = new Compiler({ ...STRICT, ...options });
  addFormats(ajv);
  return ajv;
}

function explain({ instancePath, keyword, message, params }: ErrorObject): SchemaProblem {
  const { allowedValues, additionalProperty } = params as { allowedValues?: unknown[]; additionalProperty?: string };
  const allowed = allowedValues ? `: ${allowedValues.map((value) => JSON.stringify(value)).join(', ')}` : '';
  const unexpected = additionalProperty === undefined ? '' : `: "${quoted(additionalProperty)}"`;
  return { path: quoted(instancePath), message: `${message ?? 'is not valid'}${allowed}${unexpected}`, keyword };
}
