/** A worker or an engine as its supervisor sees it, whatever it is made of: a process or a thread. Interface only. */
import type { Deadline } from '../../core/clock.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import type { ProcessState } from '../process-state.ts';

export interface ChildEvents {
  /** Called at each entry into a state but the first. `dead`: it is gone, and what it sent before has been handed on. */
  onState(state: ProcessState, child: Child): void;
  onFrame(frame: Frame, child: Child): void;
  /** A line of stdout, or lines of stderr that belong together. */
  onOutput(stream: 'stdout' | 'stderr', text: string): void;
}

export interface Child {
  /** The process it is or lives in; null where none could be started. */
  readonly pid: number | null;
  readonly state: ProcessState;
  /** False as soon as one of the signs of its end was seen: what is sent from then on is lost. */
  readonly isReachable: boolean;
  send(frame: Frame): void;
  /** Asks it to finish by `deadline`, then kills it; an earlier deadline may follow. One that is not yet ready is killed. */
  close(deadline: Deadline): void;
  /** Ends it now. `reason` becomes the cause of death; null where its exit tells more. */
  kill(reason: Error | null): void;
}
