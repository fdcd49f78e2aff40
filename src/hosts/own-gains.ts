/**
 * Gains of the metrics that modelets declare themselves, on worker hosts. Hosts report totals, again and again,
 * so a report that is missed or read twice changes nothing: each gain counts once. The counts of a host that dies
 * since its last report are lost.
 */
import type { OwnValues } from '../core/readings.ts';
import { subtractReadings } from '../observe/meters/totals.ts';

/** Counters and histograms of a stage on one host. */
export interface OwnTotals {
  /** Time of the server since which the host has counted. */
  readonly since: number;
  readonly counts: OwnValues;
  /** Updates that were dropped because there are too many metrics. */
  readonly dropped: number;
}

const MOST_HOSTS = 1000;

export class OwnGains {
  /** Last totals by host; the host that was seen last is last. */
  readonly #seen: Map<string, OwnTotals> = new Map();
  /** Counts of unknown hosts from before this time count no more: this runtime may have read it before. */
  #countedFrom: number;

  /** @param from time of the server from which all counts */
  constructor(from: number) {
    this.#countedFrom = from;
  }

  /** Returns what a host has gained since it was read last; null if it is nothing. */
  of(host: string, totals: OwnTotals): Omit<OwnTotals, 'since'> | null {
    const known = this.#seen.get(host);
    this.#seen.delete(host);
    this.#seen.set(host, totals);
    this.#forget();
    const last = known?.since === totals.since ? known : this.#before(totals);
    const gained = subtractReadings(totals, last);
    return hasGained(gained) ? gained : null;
  }

  #before(totals: OwnTotals): OwnTotals {
    return totals.since > this.#countedFrom ? { ...totals, counts: {}, dropped: 0 } : totals;
  }

  #forget(): void {
    const [oldest] = this.#seen;
    if (this.#seen.size <= MOST_HOSTS || !oldest) return;
    const [host, { since }] = oldest;
    this.#seen.delete(host);
    this.#countedFrom = Math.max(this.#countedFrom, since);
  }
}

function hasGained({ counts, dropped }: OwnTotals): boolean {
  if (dropped > 0) return true;
  const values = Object.values(counts).flatMap((series) => Object.values(series));
  return values.some((value) => (typeof value === 'number' ? value : value.counts.some((count) => count > 0)));
}
