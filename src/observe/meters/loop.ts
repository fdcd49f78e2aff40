/**
 * Measures how busy the event loop of the Node-RED process is. All HTTP requests, including those to pipelines, and the
 * nodes of all flows share that loop; requests wait while it is busy.
 */
import { type EventLoopUtilization, type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';

export interface LoopSnapshot {
  /** 99th percentile of timer delays, in ms. A single long block shows only in `maxMs`. */
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Fraction of time in which the loop was busy, 0 to 1. */
  readonly utilization: number;
  /** Length of the last complete interval, in ms, which all figures describe. */
  readonly intervalMs: number;
}

export const LOOP_INTERVAL_MS = 5000;
/** Interval of the probe timer. The measured delays include this interval. */
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

  /** Figures of the last complete interval; null before the first and while off. */
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

/** Converts the time between two probes, in ns, to the delay of the second one, in ms. */
function late(ns: number): number {
  return Math.max(0, ns / 1e6 - PROBE_MS);
}
