/**
 * Remote stages in a row: an item whose next stages run on the same worker hosts goes through them there, as one job, and
 * comes back with the result of the last. The item stays with the stage that sent it, and its `hops` are the others.
 *
 * Each stage of a row keeps its own batches, limits and metrics. A stage is passed on hosts only if that changes nothing
 * but the way: every host has it, it has no versions and keeps no results, no tap copies its input, and a lost
 * host has the same consequences for its items.
 */
import type { ModeletError } from '../../../core/errors.ts';
import type { StageTiming } from '../../../core/model.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import { type Hop, type Item, NO_HOPS, type RouteStage } from './item.ts';

const NONE: readonly StageTiming[] = [];

/**
 * Returns the next stages that an item can pass on the hosts of its present one.
 * @param alsoServe whether all these hosts serve a stage, by its key
 */
export function hopsOf({ leg, position, stage }: Item, alsoServe: (key: string) => boolean): readonly Hop[] {
  const first = stage.hop;
  if (!first) return NO_HOPS;
  const hops: Hop[] = [];
  for (let at = position + 1; at < leg.stages.length; at += 1) {
    const hop = leg.stages[at]?.hop;
    if (!hop || leg.tapped[at - 1] || hop.retryLost !== first.retryLost || !alsoServe(hop.key)) break;
    hops.push(hop);
  }
  return hops;
}

/** Makes sure that the items of a batch pass the same stages. They differ only while a deploy changes their route. */
export function keepTogether(items: readonly Item[]): void {
  if (items.every(({ hops }) => hops.length === 0)) return;
  const rows = items.map((item) => furtherStages(item).map(({ ref }) => ref));
  if (rows.every((row) => row.join() === rows[0]?.join())) return;
  for (const item of items) item.hops = NO_HOPS;
}

/** Returns the stage that an item failed at: the stage that has it, or a stage that it was to pass on the same host. */
export function failingStage(item: Item, error: ModeletError): RouteStage {
  return furtherStages(item).find(({ name }) => name === error.stage) ?? item.stage;
}

/**
 * Notes which further stages a host has run an item through, and returns the timings there. A host that no longer serves
 * one of them returns the item in front of it.
 */
export function passedAlong(item: Item, { ok, timings }: WireItem): readonly StageTiming[] {
  if (item.hops.length === 0) return NONE;
  const passed = furtherStages(item).flatMap((stage, index) => {
    const timing = timings[index + 1];
    return timing ? [stage.passedOnHost(timing)] : [];
  });
  if (ok) item.hops = item.hops.slice(0, passed.length);
  return passed;
}

function furtherStages({ leg, position, hops }: Item): readonly RouteStage[] {
  return leg.stages.slice(position + 1, position + 1 + hops.length);
}
