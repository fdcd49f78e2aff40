/**
 * A worker or engine as its supervisor sees it, process and thread alike: its state, its deadline, its last lines of
 * stderr, and why it ended.
 */
import type { Readable } from 'node:stream';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import type { Channel } from '../../wire/channel/channel.ts';
import { decodeError } from '../../wire/codec/error-codec.ts';
import type { StateReport } from '../../wire/frames/bodies.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import { BUILD_ID, isReplaced, packageUpdated } from '../build-id.ts';
import { Lines } from '../lines.ts';
import { LineGroups, StderrTail } from './output.ts';
import { startFailure } from './start-failure.ts';

export interface ChildEvents {
  /**
   * The child entered a state other than its first. At `dead` the child is gone, and everything that it sent has been
   * passed on.
   */
  onState(state: ProcessState, child: Child): void;
  onFrame(frame: Frame, child: Child): void;
  /** The child wrote a line to stdout, or lines that belong together to stderr. */
  onOutput(stream: OutputStream, text: string): void;
}

/** `last words`: what a child wrote to stderr right before it died. */
export type OutputStream = 'stdout' | 'stderr' | 'last words';

/** Returns the level of output in the log. Libraries write progress and notices to stderr, so it is no warning as such. */
export function levelOfOutput(stream: OutputStream): 'info' | 'warn' {
  return stream === 'last words' ? 'warn' : 'info';
}

/** Read-only view of a channel. */
export type Traffic = Omit<Channel, 'send' | 'flushed' | 'close'>;

export interface Child {
  /** Id of the child's process, or of the process that runs its thread; null if no process could be started. */
  readonly pid: number | null;
  readonly state: ProcessState;
  /** Whether frames can still reach the child. False after the first sign of its end; later frames are lost. */
  readonly isReachable: boolean;
  /** The bytes between parent and child; null for a thread, which shares memory. */
  readonly traffic: Traffic | null;
  /** Grows with each frame and each piece of output that the child has sent. */
  readonly signs: number;
  send(frame: Frame): void;
  /**
   * Asks the child to finish, and kills it at `deadline`. Kills a child that is not ready yet at once. A later call may
   * set an earlier deadline.
   */
  close(deadline: Deadline): void;
  /** Kills the child now. `reason` becomes the cause of death; null if its exit explains more. */
  kill(reason: Error | null): void;
}

/** Stands for a child that could not be started. Its supervisor sees a child that died at once, and restarts it. */
export class NeverStarted implements Child {
  readonly pid: null = null;
  readonly isReachable: boolean = false;
  readonly traffic: null = null;
  readonly signs: number = 0;
  readonly #machine: StateMachine;

  constructor(reason: Error, events: ChildEvents) {
    this.#machine = new StateMachine((state) => events.onState(state, this));
    // The supervisor does not have this object yet, so it must die later.
    setImmediate(() => this.#machine.enter({ tag: 'dead', error: reason }));
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  send(): void {}

  close(): void {}

  kill(): void {}
}

/**
 * The five states of a child (seed 002) and the moves between them.
 *
 *   startup   launched, loading              -> ready | error | dead
 *   ready     serving                        -> error | shutdown | dead
 *   error     failed, reported its cause     -> shutdown | dead
 *   shutdown  finishing, killed at deadline  -> dead
 *   dead      gone; only the parent sees it. Recovery is always a new process
 */
export type ProcessState =
  | { readonly tag: 'startup' }
  | { readonly tag: 'ready'; readonly since: number }
  | { readonly tag: 'error'; readonly error: Error }
  | { readonly tag: 'shutdown'; readonly deadline: Deadline }
  | { readonly tag: 'dead'; readonly error: Error };

export type ProcessStateTag = ProcessState['tag'];

export const TRANSITIONS: Readonly<Record<ProcessStateTag, readonly ProcessStateTag[]>> = {
  startup: ['ready', 'error', 'dead'],
  ready: ['error', 'shutdown', 'dead'],
  error: ['shutdown', 'dead'],
  shutdown: ['dead'],
  dead: [],
};

/** Holds the state of one process and is the only writer of it. */
export class StateMachine {
  #state: ProcessState = { tag: 'startup' };
  readonly #onEnter: (state: ProcessState) => void;

  constructor(onEnter: (state: ProcessState) => void) {
    this.#onEnter = onEnter;
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** Moves to `next`. Returns false and does nothing if the move is not allowed, as for an event that arrives late. */
  enter(next: ProcessState): boolean {
    if (!TRANSITIONS[this.#state.tag].includes(next.tag)) return false;
    this.#state = next;
    this.#onEnter(next);
    return true;
  }
}

/**
 * The common half of a started process and a started thread; each has its own way to carry frames, and to end. Sends a
 * child nothing until the child has reported that it runs the same build as its parent.
 */
export abstract class StartedChild implements Child {
  abstract readonly pid: number | null;
  abstract readonly isReachable: boolean;
  abstract readonly traffic: Traffic | null;
  /** Carries frames to the child once it has reported its build; null before it has a channel. */
  protected abstract readonly channel: Pick<Channel, 'send'> | null;
  /** File of this package that the child runs. */
  readonly #entry: string;
  readonly #events: ChildEvents;
  protected readonly clock: Clock;
  readonly #machine: StateMachine;
  readonly #stderr: StderrTail = new StderrTail();
  /** Whether the child has ended without being asked to. */
  #dies = false;
  /** The child's stderr, grouped into messages. */
  readonly #complaints: LineGroups;
  /** Frames to send once the child has reported its start; null from then on. */
  #unsent: Frame[] | null = [];
  #deadlineTimer: Timer | null = null;
  /** Reason of the first kill that gave one; becomes the cause of death. */
  #killReason: Error | null = null;
  #signs = 0;

  constructor(entry: string, events: ChildEvents, clock: Clock) {
    this.#entry = entry;
    this.#events = events;
    this.clock = clock;
    this.#machine = new StateMachine((state) => events.onState(state, this));
    this.#complaints = new LineGroups(
      (message) => events.onOutput(this.#dies ? 'last words' : 'stderr', message),
      clock,
    );
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  get signs(): number {
    return this.#signs;
  }

  send(frame: Frame): void {
    if (this.#unsent) this.#unsent.push(frame);
    else this.channel?.send(frame);
  }

  abstract kill(reason: Error | null): void;

  /** Takes a frame from the child: handles reports of its state here and passes all other frames on. */
  protected receive(frame: Frame): void {
    this.#signs += 1;
    try {
      if (frame.type === 'report') this.#reported(frame.body);
      else this.#events.onFrame(frame, this);
    } catch (thrown) {
      // A frame that cannot be handled must end only the child, not this process.
      this.kill(asError(thrown));
    }
  }

  /** Passes on the child's output: stdout by line, stderr by message. */
  protected read(stream: 'stdout' | 'stderr', input: Readable): void {
    input.on('error', () => {
      // A broken output pipe only loses the lines that it would have carried.
    });
    const lines = new Lines((line) => {
      if (stream === 'stdout') {
        this.#events.onOutput(stream, line);
        return;
      }
      this.#stderr.add(line);
      this.#complaints.push(line);
    });
    input.setEncoding('utf8');
    input.on('data', (text: string) => {
      // Bars of progress are redrawn without a new line.
      this.#signs += 1;
      lines.push(text);
    });
    // The last message of stderr waits a moment longer, for the end that it may explain.
    input.on('end', () => lines.end());
    // The output of a thread is paused, because another reader had it before.
    input.resume();
  }

  /** Asks the child to finish, and kills it at `deadline`. */
  close(deadline: Deadline): void {
    const entered = this.#machine.enter({ tag: 'shutdown', deadline });
    if (!entered) {
      if (this.state.tag === 'startup') this.kill(new Error('closed before it was ready'));
      if (this.state.tag === 'shutdown' && deadline < this.state.deadline) this.#killAt(deadline);
      return;
    }
    this.send({ type: 'close', body: { deadline } });
    this.#killAt(deadline);
  }

  /** Records why the child was killed. The first reason wins. */
  protected killedBecause(reason: Error | null): void {
    this.#killReason ??= reason;
  }

  /** Cancels the deadline, because the child is already ending. */
  protected ending(): void {
    this.#deadlineTimer?.cancel();
  }

  /**
   * Marks the child as dead.
   * @param how how it ended; used in the error if there is no better cause
   */
  protected dead(how: string): void {
    this.ending();
    this.#dies = this.state.tag !== 'shutdown';
    this.#complaints.end();
    this.#machine.enter({ tag: 'dead', error: this.#causeOfDeath(how) });
  }

  #reported(report: StateReport): void {
    if (report.state === 'startup') this.#started(report.build ?? '');
    // The kill of a child comes too late for what it has sent already.
    if (report.state === 'ready' && !this.#killReason) this.#machine.enter({ tag: 'ready', since: this.clock.now() });
    if (report.state === 'error') {
      const error = report.error
        ? decodeError(Buffer.from(report.error, 'base64'))
        : new Error('failed without a cause');
      this.#machine.enter({ tag: 'error', error: startFailure(error, report.loading === true, report.files ?? []) });
    }
  }

  #started(build: string): void {
    if (build !== BUILD_ID) {
      this.kill(packageUpdated());
      return;
    }
    const unsent = this.#unsent ?? [];
    this.#unsent = null;
    for (const frame of unsent) this.channel?.send(frame);
  }

  #killAt(deadline: Deadline): void {
    this.#deadlineTimer?.cancel();
    this.#deadlineTimer = this.clock.at(deadline, () => this.kill(new Error('did not end in time')));
  }

  #causeOfDeath(how: string): Error {
    // A child with different or incomplete code may end, or send unreadable frames, before it reports its build.
    if (this.#unsent && isReplaced(this.#entry)) return packageUpdated();
    if (this.state.tag === 'error') return this.state.error;
    if (this.#killReason) return this.#killReason;
    return new Error(this.#stderr.explain(how, how.includes('SIGKILL')));
  }
}
