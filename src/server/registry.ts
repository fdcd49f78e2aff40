/**
 * Keeps one service per runtime node, by the node's id and configuration. A deploy closes and reopens nodes, but a
 * service keeps running if its runtime node comes back unchanged.
 */
import type { RuntimeConfig } from '../config/compile.ts';
import type { Machine } from './runtime-pins.ts';
import { Service, type ServiceHost } from './service.ts';

interface Entry {
  readonly service: Service;
  /** The service's configuration as JSON, to detect a change. */
  readonly configuration: string;
}

export class Registry {
  readonly #host: ServiceHost;
  readonly #entries: Map<string, Entry> = new Map();
  readonly #closing: Set<Promise<void>> = new Set();

  constructor(host: ServiceHost) {
    this.#host = host;
  }

  get services(): Service[] {
    return [...this.#entries.values()].map((entry) => entry.service);
  }

  get(id: string): Service | undefined {
    return this.#entries.get(id)?.service;
  }

  /** Matches the services to `runtimes`: keeps unchanged services, starts new ones, drains and closes the rest. */
  reconcile(runtimes: ReadonlyMap<string, RuntimeConfig>, machine: Machine): void {
    for (const [id, entry] of this.#entries) {
      const wanted = runtimes.get(id);
      if (wanted && JSON.stringify(wanted) === entry.configuration) continue;
      this.#entries.delete(id);
      this.#track(entry.service.close(true));
    }
    for (const [id, config] of runtimes) {
      if (!this.#entries.has(id)) this.#entries.set(id, this.#start(id, config, machine));
    }
  }

  /** Drains and closes all services within their deadline. Resolves when all processes are gone. */
  async closeAll(): Promise<void> {
    for (const [id, { service }] of this.#entries) {
      this.#entries.delete(id);
      this.#track(service.close(true));
    }
    await Promise.all(this.#closing);
  }

  #start(id: string, config: RuntimeConfig, machine: Machine): Entry {
    const service = new Service(id, config, machine, this.#host);
    service.start();
    return { service, configuration: JSON.stringify(config) };
  }

  #track(closing: Promise<void>): void {
    const tracked: Promise<void> = closing.finally(() => this.#closing.delete(tracked));
    this.#closing.add(tracked);
  }
}
