/**
 * The live view of the editor's sidebar. Publishes once a second to the editors that watch, and only to them. Computes
 * nothing while no editor watches.
 *
 * Node-RED publishes to every connected editor, even to accounts without read permission. So an editor with permission
 * gets a ticket from an admin route and redeems it over its connection. The view is published only to connections that
 * have redeemed a ticket. To keep watching, an editor redeems another ticket before `LEASE_MS` ends.
 *
 *   idle     no editor watches                            -> watched
 *   watched  measures the runtimes and publishes, each s  -> idle
 */
import { randomUUID } from 'node:crypto';
import type { Clock, Timer } from '../../core/clock.ts';
import type { Measurement } from '../../observe/views/interval.ts';
import { type Around, type View, viewBetween } from '../../observe/views/view.ts';

export const INTERVAL_MS = 1000;
/** Time for which a ticket is valid, and for which an editor watches per ticket. */
export const LEASE_MS = 10_000;
/** Number of intervals that rates and quantiles cover. With fewer, the figures would flicker. */
const LOOKED_BACK = 5;
/** Most tickets that have not been redeemed. */
const MOST_TICKETS = 1000;

interface ViewHost {
  readonly clock: Clock;
  measure(): readonly Measurement[];
  around(): Around;
  publish(session: string, view: View): void;
}

type LiveViewState =
  | { readonly tag: 'idle' }
  /** `looks`: the latest measurements, oldest first. */
  | { readonly tag: 'watched'; timer: Timer; readonly looks: (readonly Measurement[])[] };

export class LiveView {
  readonly #host: ViewHost;
  /** Expiry times, by ticket. */
  readonly #tickets: Map<string, number> = new Map();
  /** Times until which editors watch, by connection. */
  readonly #sessions: Map<string, number> = new Map();
  #state: LiveViewState = { tag: 'idle' };

  constructor(host: ViewHost) {
    this.#host = host;
  }

  get isWatched(): boolean {
    return this.#state.tag === 'watched';
  }

  /** Issues a ticket for one use within `LEASE_MS`. Call only for an account with read permission. */
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

  /** Starts or extends publishing to a connection. Ignores an invalid ticket. */
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
