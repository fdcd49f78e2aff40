/** Stands for a child that could not be started. Its supervisor sees a child that died at once, and restarts it. */

import { type ProcessState, StateMachine } from '../process-state.ts';
import type { Child, ChildEvents } from './child.ts';

export class NeverStarted implements Child {
  readonly pid: null = null;
  readonly isReachable: boolean = false;
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
