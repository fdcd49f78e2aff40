/**
 * Compiles users' JSON Schemas for a stage's inputs and results. The server checks a schema at deploy. Each worker, or
 * the engine for workers in Python, compiles it again.
 *
 * A schema follows draft 2020-12, as in OpenAPI 3.1, or draft-07 if its `$schema` says so. An unknown keyword or format
 * is an error: it would otherwise be a rule that is never applied.
 */
import { createRequire } from 'node:module';
import type { ErrorObject, Options, ValidateFunction } from 'ajv';
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

/** Formats problems as one line of text. */
export function describeProblems(what: 'input' | 'output', problems: readonly SchemaProblem[]): string {
  return problems.map(({ path, message }) => `${what}${path} ${message}`).join('; ');
}

const require = createRequire(import.meta.url);

function compile(schema: PayloadSchema, allErrors: boolean): ValidateFunction {
  // Loaded with the first schema: they take longer than the rest of a worker's start.
  const { Ajv } = require('ajv') as typeof import('ajv');
  const { Ajv2020 } = require('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js');
  const addFormats = require('ajv-formats') as (ajv: InstanceType<typeof Ajv>) => void;

  const dialect = typeof schema === 'object' ? schema['$schema'] : undefined;
  const isDraft7 = typeof dialect === 'string' && dialect.includes('draft-07');
  const ajv = isDraft7 ? new Ajv({ ...STRICT, allErrors }) : new Ajv2020({ ...STRICT, allErrors });
  addFormats(ajv);
  const validator = ajv.compile(schema);
  // An asynchronous validator returns a promise, which would count as "valid".
  if ('$async' in validator) throw new Error('a schema with $async cannot be used');
  return validator;
}

function explain({ instancePath, keyword, message, params }: ErrorObject): SchemaProblem {
  const { allowedValues, additionalProperty } = params as { allowedValues?: unknown[]; additionalProperty?: string };
  const allowed = allowedValues ? `: ${allowedValues.map((value) => JSON.stringify(value)).join(', ')}` : '';
  const unexpected = additionalProperty === undefined ? '' : `: "${quoted(additionalProperty)}"`;
  return { path: quoted(instancePath), message: `${message ?? 'is not valid'}${allowed}${unexpected}`, keyword };
}
