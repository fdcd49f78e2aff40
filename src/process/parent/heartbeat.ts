/**
 * Detects a process that is alive but hangs: stopped, or in an endless loop. Pings it at every tick. All bytes that it
 * sends or accepts count as a sign of life, because its answer may be queued behind other data.
 *
 * Each tick first lets this process's own event loop read the data that has arrived. If this loop was blocked for long,
 * it finds the answers and does not blame the other process. A process that waited for a core most of the time, because
 * others had them all, gets more ticks.
 *
 *   stopped  nothing is watched            -> pausing
 *   pausing  until the next tick           -> polling | stopped
 *   polling  the loop reads arrived data   -> pausing | stopped
 */
import { readFileSync } from 'node:fs';
import { type Clock, type Deadline, systemClock, type Timer } from '../../core/clock.ts';

export const HEARTBEAT = {
  /** Time between two ticks, in ms. */
  intervalMs: 1000,
  /** Ticks in a row without a sign of life before a process counts as hung. Lets a swapping machine recover in time. */
  mostSilent: 10,
  /** The same for ticks in which it waited for a core most of the time: it may be in an endless loop all the same. */
  mostStarved: 60,
} as const;

export interface HeartbeatEvents {
  /** Asks for a sign of life. */
  ping(): void;
  /** Whether the process has given a sign of life since the last call. */
  hasMoved(): boolean;
  /** How long the process has waited for a core so far, in ms. */
  waitedMs(): number;
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
  /** Ticks since the last sign of life; those in which the process waited for a core are `starved`. */
  #ticks = { silent: 0, starved: 0 };
  #last: { readonly at: Deadline; readonly waitedMs: number } = { at: 0, waitedMs: 0 };

  constructor(events: HeartbeatEvents, clock: Clock = systemClock) {
    this.#events = events;
    this.#clock = clock;
  }

  /** Starts watching, as if the process had just given a sign of life. */
  start(): void {
    this.stop();
    this.#ticks = { silent: 0, starved: 0 };
    this.#last = this.#now();
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
    const { at, waitedMs } = this.#last;
    this.#last = this.#now();
    const isStarved = this.#last.waitedMs - waitedMs > (this.#last.at - at) / 2;
    if (this.#events.hasMoved()) this.#ticks = { silent: 0, starved: 0 };
    else this.#ticks[isStarved ? 'starved' : 'silent'] += 1;
    const { silent, starved } = this.#ticks;
    if (silent < HEARTBEAT.mostSilent && starved < HEARTBEAT.mostStarved) {
      this.#pause();
      return;
    }
    this.#state = { tag: 'stopped' };
    this.#events.onSilent(((silent + starved) * HEARTBEAT.intervalMs) / 1000);
  }

  #now(): { readonly at: Deadline; readonly waitedMs: number } {
    return { at: this.#clock.now(), waitedMs: this.#events.waitedMs() };
  }
}

/** Returns how long the main thread of a process has waited for a core so far, in ms; 0 if the system does not tell. */
export function waitedMs(pid: number | null): number {
  if (pid === null) return 0;
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
