/** Collects what is to be stored while something is being stored: one write to disk for all that came meanwhile. */

interface Waiting<In, Out> {
  readonly value: In;
  resolve(out: Out): void;
  reject(error: Error): void;
}

export class Batches<In, Out> {
  readonly #store: (values: readonly In[]) => Promise<readonly Out[]>;
  readonly #most: number;
  #waiting: Waiting<In, Out>[] = [];
  #storing: Promise<void> | null = null;

  /** `store` answers for each value, in order. @param most values of one call. */
  constructor(store: (values: readonly In[]) => Promise<readonly Out[]>, most: number) {
    this.#store = store;
    this.#most = most;
  }

  /** Resolves when it is stored. */
  add(value: In): Promise<Out> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ value, resolve, reject });
      this.#storing ??= this.#run();
    });
  }

  /** Resolves when all that was added is stored, or has failed. */
  async settled(): Promise<void> {
    await this.#storing;
  }

  async #run(): Promise<void> {
    // What comes in the same turn goes together.
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
