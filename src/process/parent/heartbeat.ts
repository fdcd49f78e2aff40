/**
 * Notices a process that lives but does nothing any more: stopped, or caught in a loop. Asks it for a sign of life at
 * every tick. Whatever comes from it is one, and so is what it takes: an answer may stand behind much else.
 *
 * A tick counts only after this process's own event loop has turned and read what had come: a loop that was blocked
 * for long finds the answers waiting, and blames nobody.
 *
 *   stopped  nothing is watched            -> pausing
 *   pausing  until the next tick           -> polling | stopped
 *   polling  the loop reads what has come  -> pausing | stopped
 */
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';

export const HEARTBEAT = {
  /** Milliseconds from one tick to the next. */
  intervalMs: 1000,
  /** So many ticks in a row without a sign of life are the end. Long enough for a machine that swaps to come back. */
  mostSilent: 10,
} as const;

export interface HeartbeatEvents {
  /** Asks for a sign of life. */
  ping(): void;
  /** Whether the process has given one since this was last asked. */
  hasMoved(): boolean;
  /** None came for `seconds`. Nothing is watched any more. */
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

  /** Watches from now on, as if there had just been a sign of life. */
  start(): void {
    this.stop();
    this.#silent = 0;
    this.#pause();
  }

  /** Leaves no timer behind. */
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

  /** Immediates run after the loop has read its sockets. */
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
