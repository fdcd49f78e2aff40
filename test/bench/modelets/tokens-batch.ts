/** The model of tokens.ts with a batch that stays together until its longest result is made. */
import { setTimeout as pause } from 'node:timers/promises';

export default class TokensBatch {
  static batch = true;
  readonly #ms: number;

  constructor(init: { ms: number }) {
    this.#ms = init.ms;
  }

  async predict(inputs: readonly number[]): Promise<readonly number[]> {
    for (let step = 0; step < Math.max(...inputs); step += 1) await pause(this.#ms);
    return inputs;
  }
}
