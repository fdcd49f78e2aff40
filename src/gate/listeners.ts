/** Calls its listeners in rotation, for fairness: the first of one call is the last of the next. */
export class Listeners {
  readonly #listeners = new Set<() => void>();
  #told = 0;

  /** Returns a function that removes the listener. A listener added twice is called once. */
  add(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(): void {
    const all = [...this.#listeners];
    if (all.length === 0) return;
    const start = this.#told % all.length;
    this.#told += 1;
    for (const listener of [...all.slice(start), ...all.slice(0, start)]) listener();
  }

  clear(): void {
    this.#listeners.clear();
  }
}
