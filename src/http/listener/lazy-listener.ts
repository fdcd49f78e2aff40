/**
 * The listener of an engine, loaded when a plan first has one. Most engines never listen, and start in half the time
 * without node:http and the code of endpoints.
 */
import type { EnginePlan } from '../../config/stage-definition.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import type { EngineBoot } from '../../wire/frames/bodies.ts';
import type { Listener, ListenerHost } from './listener.ts';

export class LazyListener {
  readonly #boot: EngineBoot;
  readonly #host: ListenerHost;
  readonly #clock: Clock;
  #loading: Promise<Listener> | null = null;
  /** null: no plan had a listener, or it is being loaded. */
  loaded: Listener | null = null;
  /** The latest plan and description, for a listener that is not loaded yet. */
  #plan: EnginePlan | null = null;
  #openapi: string | null = null;

  constructor(boot: EngineBoot, host: ListenerHost, clock: Clock) {
    this.#boot = boot;
    this.#host = host;
    this.#clock = clock;
  }

  apply(plan: EnginePlan): void {
    this.#plan = plan;
    if (this.loaded) this.loaded.apply(plan);
    else if (plan.listener) this.#loading ??= this.#load();
  }

  publishApi(openapi: string): void {
    this.#openapi = openapi;
    this.loaded?.publishApi(openapi);
  }

  /** Takes no more requests, and answers all that are open by the deadline. */
  async close(deadline: Deadline): Promise<void> {
    await (await this.#loading)?.close(deadline);
  }

  async #load(): Promise<Listener> {
    const { Listener } = await import('./listener.ts');
    const listener = new Listener(this.#boot, this.#host, this.#clock);
    this.loaded = listener;
    if (this.#openapi !== null) listener.publishApi(this.#openapi);
    if (this.#plan) listener.apply(this.#plan);
    return listener;
  }
}
