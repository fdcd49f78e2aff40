/** Compiles the checks of a stage's inputs and results. Schemas in the stage's settings override the modelet's own. */

import type { ModeletDefinition } from '../../config/stage-definition.ts';
import { ModeletError } from '../../core/errors.ts';
import type { PayloadSchema } from '../../core/model.ts';
import type { Statics } from '../modelet/modelet.ts';

/** Each check throws a ModeletError for an invalid value. A check is null if any value is allowed. */
export interface PayloadChecks {
  /** Throws `invalid_input`. `bytes`: encoded size of the value. */
  readonly input: ((value: unknown, bytes: number) => void) | null;
  /** Throws `modelet_failed`. */
  readonly output: ((value: unknown) => void) | null;
}

export const ANYTHING: PayloadChecks = { input: null, output: null };

/** Limit in bytes for reporting all problems. A larger input may have millions, so only its first one is reported. */
const THOROUGH_UP_TO = 65_536;

/** @throws Error that names the schema if it cannot be used. */
export async function payloadChecks(
  definition: Pick<ModeletDefinition, 'inputSchema' | 'outputSchema'>,
  statics: Statics,
): Promise<PayloadChecks> {
  const inputSchema = definition.inputSchema ?? statics.inputSchema;
  const outputSchema = definition.outputSchema ?? statics.outputSchema;
  if (inputSchema === null && outputSchema === null) return ANYTHING;
  // Imported lazily: its dependencies take longer to load than the rest of a worker's start.
  const { compilePayloadSchema, describeProblems } = await import('../../config/payload-schema.ts');
  const compile = (name: string, schema: PayloadSchema): ReturnType<typeof compilePayloadSchema> => {
    try {
      return compilePayloadSchema(schema);
    } catch (cause) {
      throw new Error(`${name} cannot be used: ${(cause as Error).message}`, { cause });
    }
  };
  const checkInput = inputSchema === null ? null : compile('inputSchema', inputSchema);
  const checkOutput = outputSchema === null ? null : compile('outputSchema', outputSchema);
  return {
    input:
      checkInput &&
      ((value, bytes) => {
        const problems = checkInput(value, bytes <= THOROUGH_UP_TO);
        if (!problems) return;
        throw new ModeletError('invalid_input', describeProblems('input', problems), { details: problems });
      }),
    output:
      checkOutput &&
      ((value) => {
        const problems = checkOutput(value, false);
        if (!problems) return;
        throw new ModeletError('modelet_failed', describeProblems('output', problems), { details: problems });
      }),
  };
}
