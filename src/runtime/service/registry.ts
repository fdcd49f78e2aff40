/**
 * Keeps one service per runtime node, by the node's id. A deploy closes and reopens nodes, but a service keeps running if
 * its runtime node comes back, unless another engine is needed.
 */
import type { RuntimeConfig } from '../../config/compile.ts';
import { suitsEngine } from './engine-settings.ts';
import type { Machine } from './runtime-pins.ts';
import { Service, type ServiceHost } from './service.ts';

export class Registry {
  readonly #host: ServiceHost;
  /** Writes the OpenAPI document of an engine that listens; null until `documentedBy` is called. */
  #writeApi: ((service: Service) => string) | null = null;
  #describing: NodeJS.Immediate | null = null;
  readonly #services: Map<string, Service> = new Map();
  /** Services that no runtime has any more, until their processes are gone. */
  readonly #ending: Map<Service, Promise<void>> = new Map();

  constructor(host: Omit<ServiceHost, 'onDescribed'>) {
    this.#host = { ...host, onDescribed: () => this.describe() };
  }

  get services(): Service[] {
    return [...this.#services.values()];
  }

  /**
   * Matches the services to `runtimes`: keeps services whose engines can go on, starts new ones, and closes the rest. Where
   * a runtime needs another engine, the old service first answers the requests that it holds.
   */
  reconcile(runtimes: ReadonlyMap<string, RuntimeConfig>, machine: Machine): void {
    for (const [id, service] of this.#services) {
      const wanted = runtimes.get(id);
      if (wanted && suitsEngine(service.config, wanted)) {
        service.reconfigure(wanted);
        continue;
      }
      this.#services.delete(id);
      this.#track(service, wanted ? service.retire() : service.close(true));
    }
    for (const [id, config] of runtimes) {
      if (!this.#services.has(id)) this.#services.set(id, this.#start(id, config, machine));
    }
  }

  /** Sets who writes the OpenAPI documents of the engines that listen. A deploy, or a modelet that is ready, changes them. */
  documentedBy(writeApi: (service: Service) => string): void {
    this.#writeApi = writeApi;
    this.describe();
  }

  /** Gives the engines that listen their documents, once for all modelets that become ready together. */
  describe(): void {
    this.#describing ??= setImmediate(() => {
      this.#describing = null;
      const listening = this.services.filter((service) => service.listens);
      for (const service of listening) if (this.#writeApi) service.publishApi(this.#writeApi(service));
    }).unref();
  }

  /** Drains and closes all services within their deadline. Resolves when all processes are gone. */
  async closeAll(): Promise<void> {
    const all = [...this.#services.values(), ...this.#ending.keys()];
    this.#services.clear();
    for (const service of all) this.#track(service, service.close(true));
    await Promise.all(this.#ending.values());
  }

  #start(id: string, config: RuntimeConfig, machine: Machine): Service {
    const service = new Service(id, config, machine, this.#host);
    service.start();
    return service;
  }

  #track(service: Service, ended: Promise<void>): void {
    this.#ending.set(
      service,
      ended.finally(() => this.#ending.delete(service)),
    );
  }
}
