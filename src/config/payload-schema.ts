/**
 * What a stage's inputs and results have to look like: JSON Schemas of users, compiled. They are checked when they are
 * deployed and compiled once more in each worker, which loads this file only where there is a schema.
 *
 * A schema is read by the rules of draft 2020-12, those of OpenAPI 3.1, or of draft-07 where its `$schema` says so.
 * It is held to what it says: an unknown keyword or format is an error, not a rule that is never applied.
 */
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { default as addFormats } from 'ajv-formats';
import type { PayloadSchema } from '../core/model.ts';
import { quoted } from '../core/text.ts';

/** What is wrong with a value, and where. */
export interface SchemaProblem {
  /** JSON pointer into the value; '' is the value itself. A long one is cut: its names are the sender's. */
  readonly path: string;
  /** After "it ...": `must be number`. Quotes the schema, never the value. */
  readonly message: string;
  /** The keyword of the schema that it breaks. */
  readonly keyword: string;
}

/**
 * Tells what is wrong with a value; null where nothing is. `thorough` finds up to ten problems instead of the first
 * alone: not for large values, in which there may be millions.
 */
export type PayloadCheck = (value: unknown, thorough: boolean) => readonly SchemaProblem[] | null;

/** Most problems that are told of one value. */
const MOST_PROBLEMS = 10;

// A style that is not required: properties that are required need not be described.
const STRICT: Options = { strict: true, strictRequired: false, allowUnionTypes: true };

/** @throws Error that says what is wrong with the schema. */
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

/** Problems as one line of text. */
export function describeProblems(what: 'input' | 'output', problems: readonly SchemaProblem[]): string {
  return problems.map(({ path, message }) => `${what}${path} ${message}`).join('; ');
}

function compile(schema: PayloadSchema, allErrors: boolean): ValidateFunction {
  const dialect = typeof schema === 'object' ? schema['$schema'] : undefined;
  const isDraft7 = typeof dialect === 'string' && dialect.includes('draft-07');
  const ajv = isDraft7 ? new Ajv({ ...STRICT, allErrors }) : new Ajv2020({ ...STRICT, allErrors });
  // A CommonJS module: its default is what it exports.
  (addFormats as unknown as (ajv: Ajv) => void)(ajv as Ajv);
  const validator = ajv.compile(schema);
  // A promise would pass for a value that is valid.
  if ('$async' in validator) throw new Error('a schema with $async cannot be used');
  return validator;
}

function explain({ instancePath, keyword, message, params }: ErrorObject): SchemaProblem {
  const { allowedValues, additionalProperty } = params as { allowedValues?: unknown[]; additionalProperty?: string };
  const allowed = allowedValues ? `: ${allowedValues.map((value) => JSON.stringify(value)).join(', ')}` : '';
  const unexpected = additionalProperty === undefined ? '' : `: "${quoted(additionalProperty)}"`;
  return { path: quoted(instancePath), message: `${message ?? 'is not valid'}${allowed}${unexpected}`, keyword };
}
