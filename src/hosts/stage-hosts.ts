/** The worker hosts that serve one remote stage, as their last reports in the registry describe them, and what they have counted. */
import type { ModeletDescription, WorkerStatus } from '../core/model.ts';
import { subtractReadings } from '../core/readings.ts';
import type { HostReport, OwnTotals, ServedStage } from './entries.ts';
import type { RegistryEntries } from './registry.ts';

export interface ServingHost {
  readonly id: string;
  readonly name: string;
  readonly served: ServedStage;
  readonly readyWorkers: number;
  /** Whether it takes no more batches. */
  readonly isLeaving: boolean;
  /** Keys of all stages for which it has a ready worker. */
  readonly ready: ReadonlySet<string>;
}

type Gained = Omit<OwnTotals, 'since'>;

export class StageHosts {
  readonly #key: string;
  readonly #gains: OwnGains;
  /** All that serve the stage, also those that take no more batches. */
  serving: readonly ServingHost[] = [];

  /** @param from time of the server from which the modelet's own metrics count */
  constructor(key: string, from: number) {
    this.#key = key;
    this.#gains = new OwnGains(from);
  }

  get #hosts(): readonly ServingHost[] {
    return this.serving.filter(({ isLeaving }) => !isLeaving);
  }

  get count(): number {
    return this.#hosts.length;
  }

  get workers(): WorkerStatus[] {
    return this.#hosts.flatMap(({ served }) => served.workers);
  }

  get readyWorkers(): number {
    return this.workers.filter(isReady).length;
  }

  get description(): ModeletDescription | null {
    const descriptions = this.#hosts.map(({ served }) => served.description);
    return descriptions.findLast((description) => description !== null) ?? null;
  }

  /** Why a host does not serve the stage; null if none says so. */
  get refusal(): Error | null {
    const found = this.#hosts.find(({ served }) => served.error !== null);
    return found ? new Error(`${found.served.error} (host ${found.name})`) : null;
  }

  /**
   * Takes new reports, by the ids of hosts, and returns what the modelet's own metrics have gained there. A stale report
   * counts as well: a slow runtime may read the last one of a host only after it has aged.
   */
  read({ fresh, stale }: RegistryEntries): Gained[] {
    const hosts: ServingHost[] = [];
    const gains: Gained[] = [];
    for (const [id, text] of [...stale, ...fresh]) {
      const { host: name, isLeaving, stages } = JSON.parse(text) as HostReport;
      const served = stages[this.#key];
      const gained = served?.own ? this.#gains.of(id, served.own) : null;
      if (gained) gains.push(gained);
      if (!fresh.has(id)) continue;
      const ready = Object.entries(stages).flatMap(([key, { workers }]) => (workers.some(isReady) ? [key] : []));
      if (!served) continue;
      const readyWorkers = served.workers.filter(isReady).length;
      hosts.push({ id, name, served, readyWorkers, isLeaving, ready: new Set(ready) });
    }
    this.serving = hosts;
    return gains;
  }

  /** Forgets all hosts until they are read again: the registry cannot be seen. */
  clear(): void {
    this.serving = [];
  }

  /** Whether every host with a ready worker for the stage has one for another stage, too. */
  alsoServe(key: string): boolean {
    const serving = this.#hosts.filter(({ ready }) => ready.has(this.#key));
    return serving.length > 0 && serving.every(({ ready }) => ready.has(key));
  }
}

function isReady({ state }: WorkerStatus): boolean {
  return state === 'ready';
}

const MOST_HOSTS = 1000;

/**
 * Gains of the metrics that modelets declare themselves, and of lost keys, on worker hosts. Hosts report totals, again and
 * again, so a report that is missed or read twice changes nothing: each gain counts once. The counts of a host that dies
 * since its last report are lost.
 */
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
    return totals.since > this.#countedFrom ? { ...totals, counts: {}, dropped: 0, keysLost: 0 } : totals;
  }

  #forget(): void {
    const [oldest] = this.#seen;
    if (this.#seen.size <= MOST_HOSTS || !oldest) return;
    const [host, { since }] = oldest;
    this.#seen.delete(host);
    this.#countedFrom = Math.max(this.#countedFrom, since);
  }
}

function hasGained({ counts, dropped, keysLost }: OwnTotals): boolean {
  if (dropped > 0 || keysLost > 0) return true;
  const values = Object.values(counts).flatMap((series) => Object.values(series));
  return values.some((value) => (typeof value === 'number' ? value : value.counts.some((count) => count > 0)));
}
