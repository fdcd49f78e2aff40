/** A child that could not even be started: to its supervisor one that died at once, to be tried again. */

import { type ProcessState, StateMachine } from '../process-state.ts';
import type { Child, ChildEvents } from './child.ts';

export class NeverStarted implements Child {
  readonly pid: null = null;
  readonly isReachable: boolean = false;
  readonly #machine: StateMachine;

  constructor(reason: Error, events: ChildEvents) {
    this.#machine = new StateMachine((state) => events.onState(state, this));
    // Whoever starts it does not know it yet.
    setImmediate(() => this.#machine.enter({ tag: 'dead', error: reason }));
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  send(): void {}

  close(): void {}

  kill(): void {}
}
