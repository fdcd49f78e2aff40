/**
 * The five states of a child process (seed 002) and the moves between them.
 *
 *   startup   launched, loading              -> ready | error | dead
 *   ready     serving                        -> error | shutdown | dead
 *   error     failed, reported its cause     -> shutdown | dead
 *   shutdown  finishing, killed at deadline  -> dead
 *   dead      gone; only the parent sees it. Recovery is always a new process
 */
import type { Deadline } from '../core/clock.ts';

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
