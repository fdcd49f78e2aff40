/** A budget that never changes: the gate then only counts what is in flight. */
import type { Clock } from '../../core/clock.ts';
import type { BudgetSource } from '../source.ts';
import { shown } from './reading.ts';

export function constantSource(budget: number, clock: Clock): BudgetSource {
  return {
    description: 'constant',
    read: async () => ({ ok: true, sample: { budget, at: clock.now(), fixed: true, raw: `budget ${shown(budget)}` } }),
    close: async () => {},
  };
}
