/**
 * Detects a process that is alive but hangs: stopped, or in an endless loop. Pings it at every tick. All bytes that it
 * sends or accepts count as a sign of life, because its answer may be queued behind other data.
 *
 * Each tick first lets this process's own event loop read the data that has arrived. If this loop was blocked for long,
 * it finds the answers and does not blame the other process.
 *
 *   stopped  nothing is watched            -> pausing
 *   pausing  until the next tick           -> polling | stopped
 *   polling  the loop reads arrived data   -> pausing | stopped
 */
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';

export const HEARTBEAT = {
  /** Time between two ticks, in ms. */
  intervalMs: 1000,
  /** Ticks in a row without a sign of life before a process counts as hung. Lets a swapping machine recover in time. */
  mostSilent: 10,
} as const;

export interface HeartbeatEvents {
  /** Asks for a sign of life. */
  ping(): void;
  /** Whether the process has given a sign of life since the last call. */
  hasMoved(): boolean;
  /** The process gave no sign of life for `seconds`. The heartbeat has stopped. */
  onSilent(seconds: number): void;
}

type HeartbeatState =
  | { readonly tag: 'stopped' }
  | { readonly tag: 'pausing'; readonly timer: Timer }
  | { readonly tag: 'polling'; readonly turn: NodeJS.Immediate };

export class Heartbeat {
  readonly #events: HeartbeatEvents;
  readonly #clock: Clock;
  #state: HeartbeatState = { tag: 'stopped' };
  /** Ticks since the last sign of life. */
  #silent = 0;

  constructor(events: HeartbeatEvents, clock: Clock = systemClock) {
    this.#events = events;
    this.#clock = clock;
  }

  /** Starts watching, as if the process had just given a sign of life. */
  start(): void {
    this.stop();
    this.#silent = 0;
    this.#pause();
  }

  stop(): void {
    if (this.#state.tag === 'pausing') this.#state.timer.cancel();
    if (this.#state.tag === 'polling') clearImmediate(this.#state.turn);
    this.#state = { tag: 'stopped' };
  }

  #pause(): void {
    this.#events.ping();
    const timer = this.#clock.at(this.#clock.now() + HEARTBEAT.intervalMs, () => this.#poll());
    this.#state = { tag: 'pausing', timer };
  }

  /** Ticks after the event loop has read its sockets, when immediates run. */
  #poll(): void {
    this.#state = { tag: 'polling', turn: setImmediate(() => this.#tick()) };
  }

  #tick(): void {
    this.#silent = this.#events.hasMoved() ? 0 : this.#silent + 1;
    if (this.#silent < HEARTBEAT.mostSilent) {
      this.#pause();
      return;
    }
    this.#state = { tag: 'stopped' };
    this.#events.onSilent((HEARTBEAT.mostSilent * HEARTBEAT.intervalMs) / 1000);
  }
}
