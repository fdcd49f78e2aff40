/**
 * The listener of an engine, loaded when a plan first has one. Most engines never listen, and start in half the time
 * without node:http and the code of endpoints.
 *
 *   none     no plan had a listener          -> loading
 *   loading  the latest plan waits for it    -> loaded
 *   loaded   passes everything on
 */
import type { EnginePlan } from '../../config/stage-definition.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import type { ListenerStatus } from '../../core/model.ts';
import type { EngineBoot } from '../../wire/frames/bodies.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { Submitter } from '../stage/item.ts';
import type { Listener, ListenerHost } from './listener.ts';

type LoadState =
  | { readonly tag: 'none' }
  | { readonly tag: 'loading'; readonly loaded: Promise<Listener> }
  | { readonly tag: 'loaded'; readonly listener: Listener };

export class LazyListener implements Submitter {
  readonly #boot: EngineBoot;
  readonly #host: ListenerHost;
  readonly #clock: Clock;
  #state: LoadState = { tag: 'none' };
  /** The latest plan and description, for a listener that is not loaded yet. */
  #plan: EnginePlan | null = null;
  #openapi: string | null = null;

  constructor(boot: EngineBoot, host: ListenerHost, clock: Clock) {
    this.#boot = boot;
    this.#host = host;
    this.#clock = clock;
  }

  /** Undefined if no plan ever had a listener. */
  get status(): ListenerStatus | undefined {
    return this.#state.tag === 'loaded' ? this.#state.listener.status : undefined;
  }

  /** Bytes of answers that clients have not read. */
  get unreadBytes(): number {
    return this.#state.tag === 'loaded' ? this.#state.listener.unreadBytes : 0;
  }

  apply(plan: EnginePlan): void {
    this.#plan = plan;
    if (this.#state.tag === 'loaded') this.#state.listener.apply(plan);
    else if (this.#state.tag === 'none' && plan.listener) this.#state = { tag: 'loading', loaded: this.#load() };
  }

  publishApi(openapi: string): void {
    this.#openapi = openapi;
    if (this.#state.tag === 'loaded') this.#state.listener.publishApi(openapi);
  }

  onOutcome(item: WireItem): void {
    if (this.#state.tag === 'loaded') this.#state.listener.settle(item);
  }

  onPart(part: WireItem): void {
    if (this.#state.tag === 'loaded') this.#state.listener.part(part);
  }

  /** Takes no more requests, and answers all that are open by the deadline. */
  async close(deadline: Deadline): Promise<void> {
    if (this.#state.tag === 'none') return;
    const listener = this.#state.tag === 'loading' ? await this.#state.loaded : this.#state.listener;
    await listener.close(deadline);
  }

  async #load(): Promise<Listener> {
    const { Listener } = await import('./listener.ts');
    const listener = new Listener(this.#boot, this.#host, this.#clock);
    this.#state = { tag: 'loaded', listener };
    if (this.#openapi !== null) listener.publishApi(this.#openapi);
    if (this.#plan) listener.apply(this.#plan);
    return listener;
  }
}
