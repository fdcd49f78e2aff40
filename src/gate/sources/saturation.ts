/** Measures how full a stage of this runtime is: items queued and held by workers, relative to its capacity. */
import type { GateConfig } from '../../config/compile-gate.ts';
import { STATUS_INTERVAL_MS } from '../../core/model.ts';
import type { BudgetSource, Reading, SourceServices } from '../source.ts';
import { noSample, shown } from './reading.ts';

export function saturationSource(
  { maxSys, maxConcurrency }: GateConfig,
  { readLoad, watchLoad }: SourceServices,
): BudgetSource {
  const read = (): Reading => {
    const load = readLoad();
    if (!load) return noSample('nothing is known of the stage yet');
    if (load.ready === 0) return noSample('the stage has no worker that is ready');
    const most = maxSys ?? load.ready * maxConcurrency;
    if (most <= 0) return noSample('max_SYS is 0');
    const saturation = (load.busy + load.queue) / most;
    const raw = `saturation ${shown(saturation)}: ${load.busy} held and ${load.queue} queued of ${shown(most)}`;
    // The rule's `lagMs` is meant for scraped metrics and would leave much of the capacity idle.
    return { ok: true, sample: { budget: 1 - saturation, at: load.at, lagMs: STATUS_INTERVAL_MS, maxSys: most, raw } };
  };
  return {
    description: "this runtime's own saturation",
    read: async () => read(),
    watch: watchLoad,
    close: async () => {},
  };
}
