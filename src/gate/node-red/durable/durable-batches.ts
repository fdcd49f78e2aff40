/** Groups writes to the store: values that arrive during one write go to disk together in the next. */

interface WaitingCall<In, Out> {
  readonly value: In;
  resolve(out: Out): void;
  reject(error: Error): void;
}

export class Batches<In, Out> {
  readonly #store: (values: readonly In[]) => Promise<readonly Out[]>;
  readonly #most: number;
  #waiting: WaitingCall<In, Out>[] = [];
  #storing: Promise<void> | null = null;

  /** @param store must return one answer per value, in order. @param most largest number of values in one call. */
  constructor(store: (values: readonly In[]) => Promise<readonly Out[]>, most: number) {
    this.#store = store;
    this.#most = most;
  }

  /** Adds a value. Resolves when it is stored. */
  add(value: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ value, resolve, reject });
      this.#storing ??= this.#run();
    });
  }

  /** Resolves when all added values are stored or have failed. */
  async settled(): Promise<void> {
    await this.#storing;
  }

  async #run(): Promise<void> {
    // Wait one turn, so that values added in the same turn share a write.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, this.#most);
      try {
        const answers = await this.#store(batch.map(({ value }) => value));
        for (const [index, { resolve }] of batch.entries()) resolve(answers[index] as Out);
      } catch (thrown) {
        for (const { reject } of batch) reject(thrown as Error);
      }
    }
    this.#storing = null;
  }
}
