/**
 * Keeps one service per runtime node, by the node's id and configuration. A deploy closes and reopens nodes, but a
 * service keeps running if its runtime node comes back unchanged.
 */
import { isDeepStrictEqual } from 'node:util';
import type { RuntimeConfig } from '../../config/compile.ts';
import type { Machine } from './runtime-pins.ts';
import { Service, type ServiceHost } from './service.ts';

export class Registry {
  readonly #host: ServiceHost;
  readonly #services: Map<string, Service> = new Map();
  readonly #closing: Set<Promise<void>> = new Set();

  constructor(host: ServiceHost) {
    this.#host = host;
  }

  get services(): Service[] {
    return [...this.#services.values()];
  }

  get(id: string): Service | undefined {
    return this.#services.get(id);
  }

  /** Matches the services to `runtimes`: keeps unchanged services, starts new ones, drains and closes the rest. */
  reconcile(runtimes: ReadonlyMap<string, RuntimeConfig>, machine: Machine): void {
    for (const [id, service] of this.#services) {
      const wanted = runtimes.get(id);
      // Not as text: the order of the properties depends on which of them a flow sets.
      if (wanted && isDeepStrictEqual(wanted, service.config)) continue;
      this.#services.delete(id);
      this.#track(service.close(true));
    }
    for (const [id, config] of runtimes) {
      if (!this.#services.has(id)) this.#services.set(id, this.#start(id, config, machine));
    }
  }

  /** Drains and closes all services within their deadline. Resolves when all processes are gone. */
  async closeAll(): Promise<void> {
    for (const [id, service] of this.#services) {
      this.#services.delete(id);
      this.#track(service.close(true));
    }
    await Promise.all(this.#closing);
  }

  #start(id: string, config: RuntimeConfig, machine: Machine): Service {
    const service = new Service(id, config, machine, this.#host);
    service.start();
    return service;
  }

  #track(closing: Promise<void>): void {
    const tracked: Promise<void> = closing.finally(() => this.#closing.delete(tracked));
    this.#closing.add(tracked);
  }
}
