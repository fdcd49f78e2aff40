/** Explains in a sentence with numbers why a gate is closed and what would open it, or how much it admits. Pure. */
import type { GateRule } from '../config/compile-gate.ts';
import { decimal, percent, seconds } from '../core/figures.ts';
import type { Cause, GateState } from './admission/gate-state.ts';

export interface Explained {
  readonly state: GateState;
  readonly rule: GateRule;
  /** The last sample as read. */
  readonly raw: string | null;
  /** Time between two measurements, in ms; null if unknown. */
  readonly everyMs: number | null;
  /** Name of the source of the samples. */
  readonly source: string;
  /** Cost of all leases held. */
  readonly inFlight: number;
  /** Whether exactly one request is in flight. */
  readonly alone: boolean;
}

/** Every cause except those of an open gate. */
type Closed = Exclude<Cause, { readonly tag: 'open' } | { readonly tag: 'forced' }>;

export function why(explained: Explained): string {
  const { cause } = explained.state;
  if (cause.tag === 'open') return `open: ${admits(explained)}`;
  if (cause.tag === 'forced') return 'open by a message: admits everything; "auto" makes it follow the budget';
  return `closed: ${isClosed(cause, explained)}`;
}

function admits({ state, rule, inFlight, alone }: Explained): string {
  const { room, quota, limit, ceiling, budget, read, maxSys } = state;
  const { unit, baseline } = rule;
  const ended = budget > read ? `, of which ${decimal(budget - read)} has ended since it was read` : '';
  const product = `N ${decimal(quota)} = ${decimal(maxSys)} x (D ${decimal(budget)} - B ${decimal(baseline)})${ended}`;
  if (room > 0) return `room for ${amount(room, unit)}, ${decimal(inFlight)} in flight; ${product}`;
  if (alone && inFlight > ceiling)
    return `one request of ${amount(inFlight, unit)} is in flight alone, larger than all of ${decimal(ceiling)}`;
  const base = limit - quota;
  const more = base > 0 ? `${decimal(base)} that the sample includes, and ${product}` : product;
  const bound = limit >= ceiling ? `max_SYS x (1 - B) = ${decimal(ceiling)}` : more;
  return `full, ${amount(inFlight, unit)} in flight of ${bound}; admits when one ends, or a sample leaves more`;
}

function isClosed(cause: Closed, { state, rule, raw, everyMs, source }: Explained): string {
  const { budget, maxSys } = state;
  const { baseline, staleMs } = rule;
  switch (cause.tag) {
    case 'held':
      return 'by a message; "auto" or "open" opens it';
    case 'unread':
      return `nothing was read yet; opens when ${source} answers`;
    case 'unreadable':
      return `${cause.reason}; opens when ${source} gives a number`;
    case 'stale':
      if (everyMs !== null && everyMs >= staleMs) return tooRare(everyMs, staleMs);
      return `sample ${seconds(cause.ageMs)} old, older than ${seconds(staleMs)}; opens when ${source} answers`;
    case 'refused':
      return refused(cause);
    case 'no-capacity':
      return rule.maxSys === 0 ? 'max_SYS is set to 0; nothing opens it' : 'max_SYS is 0; opens when a worker is ready';
    case 'low': {
      const read = raw === null ? '' : ` (${raw})`;
      const opens = baseline < 1 ? `opens when more than ${percent(baseline, 1)} is free` : 'nothing opens it';
      return `${percent(budget, 1)} free, ${percent(baseline, 1)} kept${read}; ${opens}`;
    }
    case 'less-than-one':
      return `${decimal(maxSys)} x (D ${decimal(budget)} - B ${decimal(baseline)}) is less than one; opens when D rises`;
  }
}

/** Returns the warning that samples go stale between measurements. The editor shows it even while the gate is open. */
export function tooRare(everyMs: number, staleMs: number): string {
  return `scraped every ${seconds(everyMs)}, stale after ${seconds(staleMs)}; make "Maximum sample age" more than twice the interval`;
}

function refused({ agoMs, waitMs, needsSample }: Extract<Cause, { tag: 'refused' }>): string {
  const wait = waitMs > 0 ? `${seconds(waitMs)} from now, as it asked` : '';
  const happened = `the system behind it refused a request ${seconds(agoMs)} ago`;
  if (!needsSample) return `${happened}; opens ${wait}`;
  return `${happened}; opens with a sample newer than that${wait && `, not before ${wait}`}`;
}

function amount(value: number, unit: GateRule['unit']): string {
  return `${decimal(value)} ${value === 1 ? unit.slice(0, -1) : unit}`;
}
