/**
 * Keeps one child process running: starts it, waits until it is ready, notices when it hangs, starts a new one when it
 * dies. Limits what it prints to the log, and counts the bytes of all processes in turn.
 *
 *   stopped  nothing runs until `start`  -> running | closed
 *   running  a child exists              -> waiting (it died) | stuck (it cannot start) | closed
 *   waiting  pausing before a restart    -> running | stopped | closed
 *   stuck    a restart would fail again  -> running (`start`) | closed
 *   closed   final; a child that still runs is finishing or being killed
 */
import { type Clock, type Deadline, systemClock, type Timer } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import type { LogLevel } from '../../core/model.ts';
import { LineLimit } from '../../observe/log/line-limit.ts';
import type { ControlFrame, Frame } from '../../wire/frames/frames.ts';
import { Backoff } from './backoff.ts';
import {
  type Child,
  type ChildEvents,
  levelOfOutput,
  NeverStarted,
  type ProcessStateTag,
  type Traffic,
} from './child.ts';
import { Heartbeat, waitedMs } from './heartbeat.ts';
import { asThrown, LastingFailure, startFailure } from './start-failure.ts';
import { StartLimit } from './start-limit.ts';

/** Phase in which a process ended: a failed start, a death in service, or a requested end. */
export type LifePhase = 'starting' | 'serving' | 'closing';

export interface SupervisedProcess {
  /** Launches a new process, at each start. An error that it throws counts as the death of that process. */
  launch(events: ChildEvents): Child;
  /** Returns the frame that each new process receives first. */
  bootFrame(): ControlFrame;
  /** Most milliseconds without a sign of life before `ready`, see start-limit.ts. 0 means no limit. */
  readonly startTimeoutMs: number;
  /** Name of the setting with that limit. Default: users cannot set it. */
  readonly startSetting?: string;
  /** Asks for a sign of life. A process with this method is killed if it gives none for long while it is ready. */
  ping?(): void;
  onReady(): void;
  readonly onFrame: (frame: Frame) => void;
  /** The process is gone, and everything that it sent has been read. There is no retry after a `LastingFailure`. */
  onLost(error: Error, phase: LifePhase): void;
  /** Displayed state has changed. */
  onChange(): void;
  /** The process printed this, or has passed it to `log`. */
  onLog(level: LogLevel, text: string): void;
}

type SupervisorState =
  | { readonly tag: 'stopped' | 'stuck' }
  | { readonly tag: 'running'; readonly child: Child; readySince: number | null }
  | { readonly tag: 'waiting'; readonly timer: Timer; readonly until: Deadline }
  | { readonly tag: 'closed'; readonly ended: Promise<void>; readonly child: Child | null };

export class Supervisor {
  readonly #process: SupervisedProcess;
  readonly #clock: Clock;
  readonly #backoff: Backoff = new Backoff();
  readonly #words: LineLimit;
  readonly #heartbeat: Heartbeat | null;
  readonly #startLimit: StartLimit | null;
  #state: SupervisorState = { tag: 'stopped' };
  #starts = 0;
  #lastError: Error | null = null;
  /** Bytes sent to and received from all processes before the present one. */
  #pastBytes: Traffic['bytes'] = { sent: 0, received: 0 };
  #childEnded: () => void = () => {};

  constructor(process: SupervisedProcess, clock: Clock = systemClock) {
    this.#process = process;
    this.#clock = clock;
    this.#words = new LineLimit((level, text) => process.onLog(level, text), clock);
    const { startTimeoutMs, startSetting = '' } = process;
    this.#startLimit =
      startTimeoutMs > 0 ? new StartLimit(startTimeoutMs, startSetting, clock, () => process.onChange()) : null;
    this.#heartbeat = process.ping
      ? new Heartbeat(
          {
            ping: () => process.ping?.(),
            hasMoved: () => this.traffic?.hasMoved() ?? false,
            waitedMs: () => waitedMs(this.pid),
            onSilent: (seconds) => this.kill(new Error(`did not answer for ${seconds} s`)),
          },
          clock,
        )
      : null;
  }

  /** State to display: the child's state, or `error` if a failure left no child running. */
  get processState(): ProcessStateTag {
    const child = this.#child;
    if (child) return child.state.tag;
    return this.#lastError ? 'error' : this.#state.tag === 'closed' ? 'dead' : 'startup';
  }

  get isReady(): boolean {
    if (this.#state.tag !== 'running') return false;
    const { child } = this.#state;
    return child.state.tag === 'ready' && child.isReachable;
  }

  /** Why the last process died; null once a new one is ready. */
  get lastError(): Error | null {
    return this.#lastError;
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  get restarts(): number {
    return Math.max(0, this.#starts - 1);
  }

  /** Milliseconds until the next start; 0 if no start is pending. */
  get pauseMs(): number {
    return this.#state.tag === 'waiting' ? Math.max(0, this.#state.until - this.#clock.now()) : 0;
  }

  /** The channel of the present process; null if there is no process, or for a thread. */
  get traffic(): Traffic | null {
    return this.#child?.traffic ?? null;
  }

  /** Bytes sent and received so far, over all processes. */
  get bytes(): Traffic['bytes'] {
    const { sent, received } = this.#pastBytes;
    const present = this.traffic?.bytes;
    return present ? { sent: sent + present.sent, received: received + present.received } : this.#pastBytes;
  }

  /** Whether the last start failed in a way that a restart would repeat. Only `start` makes another attempt. */
  get isStuck(): boolean {
    return this.#state.tag === 'stuck';
  }

  get isClosed(): boolean {
    return this.#state.tag === 'closed';
  }

  /** Starts a process now if none runs. Ends a pause before a restart and forgets earlier failures. */
  start(): void {
    if (this.#state.tag === 'running' || this.#state.tag === 'closed') return;
    if (this.#state.tag === 'waiting') this.#state.timer.cancel();
    this.#backoff.reset();
    this.#launch();
  }

  /** Prevents the restart of a dead process until `start` is called. A running process continues. */
  hold(): void {
    if (this.#state.tag !== 'waiting') return;
    this.#state.timer.cancel();
    this.#state = { tag: 'stopped' };
  }

  /** The process that frames can reach, ready or finishing, or null. */
  get recipient(): Pick<Child, 'send'> | null {
    const child = this.#child;
    const serves = child?.state.tag === 'ready' || child?.state.tag === 'shutdown';
    return serves && child.isReachable ? child : null;
  }

  /** Sends a frame to the recipient; drops the frame if there is no recipient. */
  send(frame: Frame): void {
    this.recipient?.send(frame);
  }

  /** Writes a line to the log, or only counts it if the process writes too many. */
  log(level: LogLevel, line: string): void {
    this.#words.write(level, line);
  }

  kill(reason: Error): void {
    this.#child?.kill(reason);
  }

  /**
   * Ends the process by `deadline` and starts no other. Resolves when the process is gone. A later call may set an
   * earlier deadline.
   */
  close(deadline: Deadline): Promise<void> {
    if (this.#state.tag === 'closed') {
      this.#state.child?.close(deadline);
      return this.#state.ended;
    }
    // The deadline replaces the heartbeat.
    this.#heartbeat?.stop();
    const child = this.#child;
    if (this.#state.tag === 'waiting') this.#state.timer.cancel();
    this.#startLimit?.end(false);
    const ended = child
      ? new Promise<void>((resolve) => {
          this.#childEnded = resolve;
        })
      : Promise.resolve();
    this.#state = { tag: 'closed', ended, child };
    child?.close(deadline);
    return ended;
  }

  get #child(): Child | null {
    return this.#state.tag === 'running' || this.#state.tag === 'closed' ? this.#state.child : null;
  }

  #launch(): void {
    this.#starts += 1;
    const child = this.#made({
      onState: (_state, which) => this.#childChanged(which),
      onFrame: this.#process.onFrame,
      onOutput: (stream, text) => this.log(levelOfOutput(stream), text),
    });
    this.#state = { tag: 'running', child, readySince: null };
    this.#startLimit?.begin(child);
    child.send(this.#process.bootFrame());
    this.#process.onChange();
  }

  /** Launches a child. An error in `launch` must cost only that child. */
  #made(events: ChildEvents): Child {
    try {
      return this.#process.launch(events);
    } catch (thrown) {
      return new NeverStarted(startFailure(asError(thrown), true, []), events);
    }
  }

  #childChanged(child: Child): void {
    if (child !== this.#child) return;
    const { state } = child;
    if (state.tag === 'dead') {
      this.#buried(state.error);
    } else if (this.#state.tag === 'running') {
      if (state.tag === 'ready') this.#becameReady(this.#state);
      if (state.tag === 'error') {
        this.#lastError = asThrown(state.error);
        child.kill(state.error);
      }
    }
    this.#process.onChange();
  }

  #becameReady(state: Extract<SupervisorState, { tag: 'running' }>): void {
    this.#startLimit?.end(true);
    state.readySince = this.#clock.now();
    this.#lastError = null;
    this.#process.onReady();
    this.#heartbeat?.start();
  }

  #buried(error: Error): void {
    this.#heartbeat?.stop();
    this.#pastBytes = this.bytes;
    this.#words.tell();
    if (this.#state.tag === 'closed') {
      this.#state = { ...this.#state, child: null };
      this.#childEnded();
      this.#process.onLost(error, 'closing');
      return;
    }
    if (this.#state.tag !== 'running') return;
    this.#startLimit?.end(false);
    const { readySince } = this.#state;
    this.#lastError = asThrown(error);
    if (readySince === null && error instanceof LastingFailure) {
      this.#state = { tag: 'stuck' };
      this.#process.onLost(error, 'starting');
      return;
    }
    const pause = this.#backoff.afterDeath(readySince === null ? 0 : this.#clock.now() - readySince);
    const until = this.#clock.now() + pause;
    const timer = this.#clock.at(until, () => this.#launch());
    this.#state = { tag: 'waiting', timer, until };
    this.#process.onLost(error, readySince === null ? 'starting' : 'serving');
  }
}
