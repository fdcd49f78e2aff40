/** Reads a number that a flow keeps in Node-RED's context. */
import type { ReadValue } from '../../config/compile-gate.ts';
import type { Clock } from '../../core/clock.ts';
import type { BudgetSource } from '../source.ts';
import { NoSample, readWithin, sampleOf } from './reading.ts';

/** Context stores answer fast; a store that takes longer than this counts as unavailable. */
const TIMEOUT_MS = 2000;

export interface ContextOptions {
  readonly context: 'flow' | 'global';
  readonly key: string;
  readonly value: ReadValue;
  readonly clock: Clock;
  readonly readContext: (context: 'flow' | 'global', key: string) => unknown;
}

/** Context does not record when a value was set, so the value counts as new on each reading. */
export function contextSource({ context, key, value, clock, readContext }: ContextOptions): BudgetSource {
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
