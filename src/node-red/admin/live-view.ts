/**
 * The live view of the editor's sidebar: once a second to the editors that look, to nobody else, and nothing is
 * computed while nobody looks.
 *
 * Node-RED sends what it publishes to every editor that is connected, also to those whose account may not read it.
 * So an editor that may gets a ticket from an admin route, hands it in by its connection, and what is published is
 * addressed to the connections that have. To look on, it does so again before its time is over.
 *
 *   idle     nobody looks                                     -> watched
 *   watched  looks once a second at what runs, and publishes  -> idle
 */
import { randomUUID } from 'node:crypto';
import type { Clock, Timer } from '../../core/clock.ts';
import type { Measurement } from '../../observe/views/interval.ts';
import { type Around, type View, viewBetween } from '../../observe/views/view.ts';

export const INTERVAL_MS = 1000;
/** How long an editor is told without asking anew. */
export const LEASE_MS = 10_000;
/** Rates and quantiles are about so many intervals: fewer would flicker. */
const LOOKED_BACK = 5;
/** Most tickets that have not been handed in. */
const MOST_TICKETS = 1000;

interface ViewHost {
  readonly clock: Clock;
  measure(): readonly Measurement[];
  around(): Around;
  publish(session: string, view: View): void;
}

type LiveViewState =
  | { readonly tag: 'idle' }
  /** `looks`: the last ones, the oldest first. */
  | { readonly tag: 'watched'; timer: Timer; readonly looks: (readonly Measurement[])[] };

export class LiveView {
  readonly #host: ViewHost;
  /** Until when each can be handed in. */
  readonly #tickets: Map<string, number> = new Map();
  /** By connection of an editor: until when it is told. */
  readonly #sessions: Map<string, number> = new Map();
  #state: LiveViewState = { tag: 'idle' };

  constructor(host: ViewHost) {
    this.#host = host;
  }

  get isWatched(): boolean {
    return this.#state.tag === 'watched';
  }

  /** For an editor whose account may read: to be handed in once, soon. */
  ticket(): string {
    const now = this.#host.clock.now();
    forgetPast(this.#tickets, now);
    for (const oldest of this.#tickets.keys()) {
      if (this.#tickets.size < MOST_TICKETS) break;
      this.#tickets.delete(oldest);
    }
    const ticket = randomUUID();
    this.#tickets.set(ticket, now + LEASE_MS);
    return ticket;
  }

  /** Tells a connection from now on; one that looks already looks on. A ticket that is none changes nothing. */
  watch(session: string, ticket: string): void {
    const now = this.#host.clock.now();
    forgetPast(this.#tickets, now);
    if (!this.#tickets.delete(ticket)) return;
    const isNew = !this.#sessions.has(session);
    this.#sessions.set(session, now + LEASE_MS);
    if (this.#state.tag === 'idle') {
      this.#state = { tag: 'watched', timer: this.#timer(), looks: [this.#host.measure()] };
    }
    if (isNew) this.#publish(this.#state.looks, [session]);
  }

  leave(session: string): void {
    if (this.#sessions.delete(session) && this.#sessions.size === 0) this.#rest();
  }

  #timer(): Timer {
    const { clock } = this.#host;
    return clock.at(clock.now() + INTERVAL_MS, () => this.#tick());
  }

  #tick(): void {
    if (this.#state.tag === 'idle') return;
    forgetPast(this.#sessions, this.#host.clock.now());
    if (this.#sessions.size === 0) {
      this.#rest();
      return;
    }
    const { looks } = this.#state;
    this.#state.timer = this.#timer();
    looks.push(this.#host.measure());
    if (looks.length > LOOKED_BACK + 1) looks.shift();
    this.#publish(looks, this.#sessions.keys());
  }

  #rest(): void {
    if (this.#state.tag === 'watched') this.#state.timer.cancel();
    this.#state = { tag: 'idle' };
  }

  #publish(looks: readonly (readonly Measurement[])[], sessions: Iterable<string>): void {
    const earlier = looks.length > 1 ? looks[0] : undefined;
    const view = viewBetween(earlier ?? [], looks.at(-1) ?? [], this.#host.around());
    for (const session of sessions) this.#host.publish(session, view);
  }
}

function forgetPast(deadlines: Map<string, number>, now: number): void {
  for (const [key, deadline] of deadlines) if (deadline <= now) deadlines.delete(key);
}
