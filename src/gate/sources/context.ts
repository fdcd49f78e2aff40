/** Reads a number that a flow keeps in Node-RED's context. */
import type { BudgetSource, SourceServices, SourceSettings } from '../source.ts';
import { NoSample, readWithin, sampleOf } from './reading.ts';

/** Context stores answer fast; a store that takes longer than this counts as unavailable. */
const TIMEOUT_MS = 2000;

/** Context does not record when a value was set, so the value counts as new on each reading. */
export function contextSource(
  { context, key, value }: SourceSettings<'context'>,
  { clock, readContext }: SourceServices,
): BudgetSource {
  const description = `${context}.${key}`;
  return {
    description,
    read: (signal) =>
      readWithin({ clock, timeoutMs: TIMEOUT_MS, signal }, async () => {
        const found = await readContext(context, key);
        if (found === undefined || found === null) throw new NoSample(`${description} is not set`);
        if (typeof found !== 'number')
          throw new NoSample(`${description} is not a number: its type is ${typeof found}`);
        return sampleOf(found, value, clock.now());
      }),
    close: async () => {},
  };
}
