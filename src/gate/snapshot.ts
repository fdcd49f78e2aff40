/** Builds the snapshot of an admission. A composite shows the numbers of the member that limits it. */
import type { GateSnapshot } from '../observe/views/gate-snapshot.ts';
import type { Admission } from './admission/admission.ts';
import { tooRare } from './why.ts';

/** The gate's snapshot without the fields that depend on its waiting room or store. */
export type AdmissionSnapshot = Omit<GateSnapshot, 'waiting' | 'capacity' | 'oldestMs' | 'decisions' | 'store'>;

export function snapshotOf(admission: Admission, description: string, now: number): AdmissionSnapshot {
  const tightest = admission.tightest();
  const { open, budget, quota, maxSys } = tightest.state();
  const { known, lastSampleAt } = tightest.knowledge;
  const { lastRefusal } = admission.knowledge;
  return {
    id: admission.id,
    name: admission.name,
    control: admission.controlled,
    open,
    why: admission.why(),
    unit: admission.rule.unit,
    budget,
    baseline: tightest.rule.baseline,
    quota,
    maxSys,
    source: {
      description,
      available: known.tag === 'sampled',
      error: known.tag === 'unreadable' ? known.reason : null,
      raw: known.tag === 'sampled' ? (known.sample.raw ?? null) : null,
      rare: rarityOf(tightest),
      ageMs: lastSampleAt === null ? null : now - lastSampleAt,
    },
    inFlight: admission.inFlight,
    inFlightCost: admission.inFlightCost,
    lastRefusal: lastRefusal && { agoMs: now - lastRefusal.at, retryAfterMs: lastRefusal.retryAfterMs },
    lost: admission.lost,
  };
}

/** Returns a warning if samples go stale before the next is measured: such a gate opens and closes in turns. */
function rarityOf({ knowledge, rule }: Admission): string | null {
  const { known } = knowledge;
  const everyMs = known.tag === 'sampled' ? known.sample.everyMs : undefined;
  return everyMs !== undefined && everyMs >= rule.staleMs ? tooRare(everyMs, rule.staleMs) : null;
}
