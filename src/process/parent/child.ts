/** A worker or engine as its supervisor sees it, process and thread alike. */
import type { Deadline } from '../../core/clock.ts';
import type { Channel } from '../../wire/channel/channel.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import { type ProcessState, StateMachine } from '../process-state.ts';

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
