/**
 * How busy the event loop of this process is, Node-RED's own. HTTP requests, those of the pipelines included, and the
 * nodes of all flows share it; requests wait while it is busy.
 */
import { type EventLoopUtilization, type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';

export interface LoopSnapshot {
  /** By how much timers were late, in ms: 99 of 100 were less late. A single long stop shows in `maxMs` only. */
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Part of the time in which the loop had something to do, 0 to 1. */
  readonly utilization: number;
  /** What the figures are about: the last so many ms that were measured as a whole. */
  readonly intervalMs: number;
}

export const LOOP_INTERVAL_MS = 5000;
/** Between two probes: a timer of the measurement's own, whose period is in what it measures. */
const PROBE_MS = 20;

/**
 *   off  costs nothing           -> on
 *   on   probes the event loop   -> off
 */
type LoopMonitorState =
  | { readonly tag: 'off' }
  | {
      readonly tag: 'on';
      readonly delays: IntervalHistogram;
      timer: Timer;
      startedAt: number;
      utilization: EventLoopUtilization;
    };

export class LoopMonitor {
  readonly #clock: Clock;
  #state: LoopMonitorState = { tag: 'off' };
  #last: LoopSnapshot | null = null;

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Of the last whole interval; null before the first and while off. */
  get snapshot(): LoopSnapshot | null {
    return this.#last;
  }

  start(): void {
    if (this.#state.tag === 'on') return;
    const delays = monitorEventLoopDelay({ resolution: PROBE_MS });
    delays.enable();
    this.#state = {
      tag: 'on',
      delays,
      timer: this.#timer(),
      startedAt: this.#clock.now(),
      utilization: performance.eventLoopUtilization(),
    };
  }

  stop(): void {
    if (this.#state.tag === 'off') return;
    this.#state.timer.cancel();
    this.#state.delays.disable();
    this.#state = { tag: 'off' };
    this.#last = null;
  }

  #timer(): Timer {
    return this.#clock.at(this.#clock.now() + LOOP_INTERVAL_MS, () => this.#measure());
  }

  #measure(): void {
    if (this.#state.tag === 'off') return;
    const { delays, startedAt, utilization } = this.#state;
    const now = this.#clock.now();
    const present = performance.eventLoopUtilization();
    this.#last = {
      p99Ms: late(delays.percentile(99)),
      maxMs: late(delays.max),
      utilization: performance.eventLoopUtilization(present, utilization).utilization,
      intervalMs: now - startedAt,
    };
    delays.reset();
    Object.assign(this.#state, { timer: this.#timer(), startedAt: now, utilization: present });
  }
}

/** From ns between two probes to ms that the second was late. */
function late(ns: number): number {
  return Math.max(0, ns / 1e6 - PROBE_MS);
}
