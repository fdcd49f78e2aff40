/** The metrics of dispatch gates, and how each is read from a gate's snapshot. */

import type { Described, Sample } from '../meters/metric.ts';
import type { GateSnapshot } from '../views/gate-snapshot.ts';

/** A metric of gates. The `runtime` label is blank for a gate without a runtime. */
export interface GateMetric extends Described {
  /** Returns the series of one gate. */
  readGate(gate: GateSnapshot): readonly Sample[];
}

/** @param read returns null if the gate has no value */
function ofGate(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  read: (gate: GateSnapshot) => number | null,
): GateMetric {
  const readGate = (gate: GateSnapshot): readonly Sample[] => {
    const value = read(gate);
    return value === null ? [] : [{ labels: { gate: gate.name }, value }];
  };
  return { name, type, help, labels: ['gate'], readGate };
}

export const GATES: readonly GateMetric[] = [
  ofGate('gauge', 'modelet_gate_open', '1 while the gate lets requests in, as far as N goes', ({ open }) =>
    Number(open),
  ),
  ofGate(
    'gauge',
    'modelet_gate_budget',
    'D: share of the capacity that is free; 0 where it is not known',
    ({ budget }) => budget,
  ),
  ofGate('gauge', 'modelet_gate_baseline', 'B: share of the capacity that is kept free', ({ baseline }) => baseline),
  ofGate('gauge', 'modelet_gate_quota', "N, in the gate's unit", ({ quota }) => quota),
  ofGate(
    'gauge',
    'modelet_gate_in_flight',
    "Admitted and not ended, in the gate's unit",
    ({ inFlightCost }) => inFlightCost,
  ),
  ofGate('gauge', 'modelet_gate_waiting', 'Requests that wait to be let in', ({ waiting }) => waiting),
  {
    name: 'modelet_gate_decisions_total',
    type: 'counter',
    help: 'Requests by what the gate decided: admitted, admitted_late (it has waited), refused_closed, refused_full, expired, dropped, cancelled',
    labels: ['gate', 'reason'],
    readGate: ({ name, decisions }) =>
      Object.entries(decisions).map(([reason, value]) => ({ labels: { gate: name, reason }, value })),
  },
  ofGate(
    'counter',
    'modelet_gate_lost_total',
    'Admitted requests of which nothing was seen any more',
    ({ lost }) => lost,
  ),
  ofGate('gauge', 'modelet_gate_source_available', '1 if the last reading of the source gave a number', ({ source }) =>
    Number(source.available),
  ),
  ofGate('gauge', 'modelet_gate_sample_age_seconds', 'Age of the last number that was read', ({ source }) =>
    source.ageMs === null ? null : source.ageMs / 1000,
  ),
  ofGate(
    'gauge',
    'modelet_gate_dead_letters',
    'Items of a durable gate that have used up their attempts',
    ({ store }) => (store === null ? null : store.dead),
  ),
  ofGate('gauge', 'modelet_gate_store_available', '1 if the store of a durable gate can be used', ({ store }) =>
    store === null ? null : Number(store.error === null),
  ),
];
