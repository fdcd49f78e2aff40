/** A model that makes `input` tokens, one in each step of `init.ms`, for any number of sequences, and takes no CPU. */
import { setTimeout as pause } from 'node:timers/promises';
import { type Sequence, StepModelet } from '../../../src/runtime/worker/modelet/modelet.ts';

export default class Tokens extends StepModelet<number, number> {
  readonly #ms: number;

  constructor(init: { ms: number }) {
    super();
    this.#ms = init.ms;
  }

  override async step(sequences: readonly Sequence<number, number>[]): Promise<void> {
    await pause(this.#ms);
    for (const sequence of sequences) {
      sequence.state = (sequence.state ?? 0) + 1;
      if (sequence.state >= sequence.input) sequence.end(sequence.state);
    }
  }
}
