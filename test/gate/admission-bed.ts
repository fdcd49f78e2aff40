/** An admission without a gate around it, on a clock that a test moves. */
import { Admission } from '../../src/gate/admission/admission.ts';
import type { EndedLease, LeaseEnd, Sample } from '../../src/gate/source.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { settings } from './stand-in.ts';

export class AdmissionBed {
  readonly clock: FakeClock;
  readonly admission: Admission;
  readonly ends: [LeaseEnd, EndedLease][] = [];
  ready = 0;

  constructor(change: Record<string, unknown> = {}, identity: { id?: string; clock?: FakeClock } = {}) {
    const { id = 'a', clock = new FakeClock() } = identity;
    this.clock = clock;
    this.admission = new Admission({
      id,
      name: id,
      rule: settings(change),
      clock,
      ready: () => this.ready,
      describe: () => 'the test',
      token: 't',
    });
    this.admission.onEnded((end, lease) => this.ends.push([end, lease]));
  }

  sample(budget: number, change: Partial<Sample> = {}): void {
    this.admission.accept({ ok: true, sample: { budget, at: this.clock.now(), ...change } });
  }

  /** Ids of as many leases as there are to be had. */
  all(cost = 1): string[] {
    const ids: string[] = [];
    for (let lease = this.admission.take(cost); lease && ids.length < 1000; lease = this.admission.take(cost)) {
      ids.push(lease.id);
    }
    return ids;
  }

  composite(members: readonly AdmissionBed[], change: Record<string, unknown> = {}): AdmissionBed {
    const bed = new AdmissionBed(change, { id: 'all', clock: this.clock });
    bed.admission.reconfigure(
      'all',
      settings(change),
      members.map(({ admission }) => admission),
    );
    return bed;
  }
}
