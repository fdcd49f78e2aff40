/** The checks of a stage's inputs and results, made of its schemas: those of its settings win over the modelet's own. */
import { ModeletError } from '../../core/errors.ts';
import type { ModeletDefinition, PayloadSchema } from '../../core/model.ts';
import type { Statics } from '../modelet/modelet.ts';

/** Each throws a ModeletError for a value that is not as it must be; null where anything goes. */
export interface PayloadChecks {
  /** `invalid_input`. `bytes`: how large the value was when it came. */
  readonly input: ((value: unknown, bytes: number) => void) | null;
  /** `modelet_failed`. */
  readonly output: ((value: unknown) => void) | null;
}

export const ANYTHING: PayloadChecks = { input: null, output: null };

/** Of a larger input only the first problem is told: it may have millions. */
const THOROUGH_UP_TO = 65_536;

/** @throws Error that names the schema which cannot be used. */
export async function payloadChecks(
  definition: Pick<ModeletDefinition, 'inputSchema' | 'outputSchema'>,
  statics: Statics,
): Promise<PayloadChecks> {
  const inputSchema = definition.inputSchema ?? statics.inputSchema;
  const outputSchema = definition.outputSchema ?? statics.outputSchema;
  if (inputSchema === null && outputSchema === null) return ANYTHING;
  // Only here: what it brings along is worth more than a worker's start.
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
