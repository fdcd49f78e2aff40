/** Shared by the tests of forks and of lists: stages whose values show their way, and the outcome with its report. */
import assert from 'node:assert/strict';
import type { Payload } from '../../src/core/model.ts';
import type { GatherReport } from '../../src/core/routes/gather.ts';
import type { Leg } from '../../src/core/routes/route.ts';
import { decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { gatheredOf } from '../../src/wire/frames/failures.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import type { Rig } from './rig.ts';

/** The number of the node that gathers. */
export const GATHER = 90;

export function leg(stages: readonly number[], next: Leg['next'] = null): Leg {
  return { stages, next };
}

/** The value that stage `ref` makes of another: both are visible in it. */
export function wrapped(ref: number, input: Payload): Payload {
  return encodePayload({ [`s${ref}`]: decodePayload(input) }, { blame: 'invalid_input', maxBytes: 1e6 });
}

export async function answer(rig: Rig, ref: number, fails = false): Promise<void> {
  rig.pool(ref).answer(0, 10, () => fails);
  await rig.turn();
}

export function only(rig: Rig): WireItem {
  assert.equal(rig.outcomes.length, 1);
  return rig.outcomes.splice(0)[0] as WireItem;
}

export function reportOf(item: WireItem): GatherReport {
  const report = gatheredOf(item);
  assert.ok(report, 'the outcome has a gather report');
  return report;
}
