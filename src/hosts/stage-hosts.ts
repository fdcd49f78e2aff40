/** The worker hosts that serve one remote stage, as their last reports in the registry describe them. */
import type { ModeletDescription, WorkerStatus } from '../core/model.ts';
import type { OwnValues } from '../core/readings.ts';
import type { HostReport, ServedStage } from './entries.ts';
import { OwnGains } from './own-gains.ts';
import type { RegistryEntries } from './registry.ts';

interface ServingHost {
  readonly name: string;
  readonly served: ServedStage;
  /** Keys of all stages for which it has a ready worker. */
  readonly ready: ReadonlySet<string>;
}

interface Gained {
  readonly counts: OwnValues;
  readonly dropped: number;
}

export class StageHosts {
  readonly #key: string;
  readonly #gains: OwnGains;
  #hosts: readonly ServingHost[] = [];

  /** @param from time of the server from which the modelet's own metrics count */
  constructor(key: string, from: number) {
    this.#key = key;
    this.#gains = new OwnGains(from);
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
      if (served && !isLeaving) hosts.push({ name, served, ready: new Set(ready) });
    }
    this.#hosts = hosts;
    return gains;
  }

  /** Forgets all hosts until they are read again: the registry cannot be seen. */
  clear(): void {
    this.#hosts = [];
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
