/** How full a stage of this runtime is: what waits in its queue and what its workers hold, of what they can hold. */
import type { Deadline } from '../../core/clock.ts';
import { STATUS_INTERVAL_MS } from '../../core/status-interval.ts';
import type { BudgetSource, Reading } from '../source.ts';
import { noSample, shown } from './reading.ts';

/** What is known of the stage whose workers count. */
export interface StageLoad {
  /** Items that wait in its queue. */
  readonly queue: number;
  /** Items that its workers hold: of batches, about. */
  readonly busy: number;
  /** Workers that are ready. */
  readonly ready: number;
  /** When this was so. */
  readonly at: Deadline;
}

export interface SaturationOptions {
  /** The stage as it was last seen; null while nothing is known of it. */
  readonly readLoad: () => StageLoad | null;
  /** Calls when the load has changed; returns how to stop. */
  readonly watchLoad?: ((changed: () => void) => () => void) | undefined;
  /** max_SYS; null: ready workers x `maxConcurrency`. */
  readonly maxSys: number | null;
  readonly maxConcurrency: number;
}

export function saturationSource({ readLoad, watchLoad, maxSys, maxConcurrency }: SaturationOptions): BudgetSource {
  const read = (): Reading => {
    const load = readLoad();
    if (!load) return noSample('nothing is known of the stage yet');
    if (load.ready === 0) return noSample('the stage has no worker that is ready');
    const most = maxSys ?? load.ready * maxConcurrency;
    if (most <= 0) return noSample('max_SYS is 0');
    const saturation = (load.busy + load.queue) / most;
    const raw = `saturation ${shown(saturation)}: ${load.busy} held and ${load.queue} queued of ${shown(most)}`;
    // The rule's own lag, which is made for scraped metrics, would keep much of the capacity idle.
    return { ok: true, sample: { budget: 1 - saturation, at: load.at, lagMs: STATUS_INTERVAL_MS, maxSys: most, raw } };
  };
  return {
    description: "this runtime's own saturation",
    read: async () => read(),
    ...(watchLoad && { watch: watchLoad }),
    close: async () => {},
  };
}
