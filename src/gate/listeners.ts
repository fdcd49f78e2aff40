/** Who wants to hear of something, in fairness: whoever was told first is told last the next time. */
export class Listeners {
  readonly #listeners = new Set<() => void>();
  #told = 0;

  /** Returns how to stop. One that is added twice is told once. */
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
