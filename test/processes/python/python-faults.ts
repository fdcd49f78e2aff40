/** A stage in Python of which each item says how it is to fail. */
import type { StageSpec, TestService } from '../../fixtures/service.ts';

export const FAULTS: StageSpec = {
  id: 'model',
  python: 'faults',
  batch: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 5000 },
};

/** Asks for a full batch, and tells what each comes to: its error's code and message, or `ok`. */
export async function outcomes(service: TestService, faults: readonly (string | object)[]): Promise<string[]> {
  const items = faults.map((fault, n) => (typeof fault === 'string' ? { fault, n } : { n, ...fault }));
  const answers = await Promise.all(items.map((item) => service.answer(item)));
  return answers.map(({ code, error }) => (error ? `${code}: ${error.message}` : code));
}
