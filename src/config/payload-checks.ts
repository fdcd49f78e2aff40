/** Compiles the checks of a stage's inputs and results. Schemas in the stage's settings override the modelet's own. */
import { ModeletError } from '../core/errors.ts';
import type { PayloadSchema } from '../core/model.ts';
import { compilePayloadSchema, describeProblems, type PayloadCheck } from './payload-schema.ts';

type Schemas = Readonly<Record<'inputSchema' | 'outputSchema', PayloadSchema | null>>;

/** Throws `invalid_input`. `bytes`: encoded size of the value. */
export type InputCheck = (value: unknown, bytes: number) => void;

/** Each check throws a ModeletError for an invalid value. A check is null if any value is allowed. */
export interface PayloadChecks {
  readonly input: InputCheck | null;
  /** Throws `modelet_failed`. */
  readonly output: ((value: unknown) => void) | null;
}

export const ANYTHING: PayloadChecks = { input: null, output: null };

/** Limit in bytes for reporting all problems. A larger input may have millions, so only its first one is reported. */
const THOROUGH_UP_TO = 65_536;

/** @throws Error that names the schema if it cannot be used. */
export function payloadChecks(definition: Schemas, statics: Schemas): PayloadChecks {
  const inputSchema = definition.inputSchema ?? statics.inputSchema;
  const outputSchema = definition.outputSchema ?? statics.outputSchema;
  return {
    input: inputSchema === null ? null : inputCheck(inputSchema),
    output: outputSchema === null ? null : outputCheck(outputSchema),
  };
}

/** @throws Error that names the schema if it cannot be used. */
export function inputCheck(schema: PayloadSchema): InputCheck {
  const check = compile('inputSchema', schema);
  return (value, bytes) => {
    const problems = check(value, bytes <= THOROUGH_UP_TO);
    if (!problems) return;
    throw new ModeletError('invalid_input', describeProblems('input', problems), { details: problems });
  };
}

function outputCheck(schema: PayloadSchema): (value: unknown) => void {
  const check = compile('outputSchema', schema);
  return (value) => {
    const problems = check(value, false);
    if (!problems) return;
    throw new ModeletError('modelet_failed', describeProblems('output', problems), { details: problems });
  };
}

function compile(name: string, schema: PayloadSchema): PayloadCheck {
  try {
    return compilePayloadSchema(schema);
  } catch (cause) {
    throw new Error(`${name} cannot be used: ${(cause as Error).message}`, { cause });
  }
}
