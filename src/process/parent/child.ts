/** Interface of a worker or engine to its supervisor, for processes and threads alike. */
import type { Deadline } from '../../core/clock.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import type { ProcessState } from '../process-state.ts';

export interface ChildEvents {
  /**
   * The child entered a state other than its first. At `dead` the child is gone, and everything that it sent has been
   * passed on.
   */
  onState(state: ProcessState, child: Child): void;
  onFrame(frame: Frame, child: Child): void;
  /** The child wrote a line to stdout, or lines that belong together to stderr. */
  onOutput(stream: 'stdout' | 'stderr', text: string): void;
}

export interface Child {
  /** Id of the child's process, or of the process that runs its thread; null if no process could be started. */
  readonly pid: number | null;
  readonly state: ProcessState;
  /** Whether frames can still reach the child. False after the first sign of its end; later frames are lost. */
  readonly isReachable: boolean;
  send(frame: Frame): void;
  /**
   * Asks the child to finish, and kills it at `deadline`. Kills a child that is not ready yet at once. A later call may
   * set an earlier deadline.
   */
  close(deadline: Deadline): void;
  /** Kills the child now. `reason` becomes the cause of death; null if its exit explains more. */
  kill(reason: Error | null): void;
}
