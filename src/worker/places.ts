/**
 * The places of a worker: starts what arrives in that order, as soon as a place is free.
 *
 * With one place, the next call begins when the last has ended and its reply has left, so the engine knows what runs.
 * With several, the engine is told each beginning before any code of the modelet runs for it. If the worker dies, the
 * engine then knows which calls had begun. The next call begins in a later turn of the event loop: if `predict` is
 * synchronous, the calls run in turn, and the time limit of each begins when it does.
 */

export interface PlacesHost<Call> {
  /** Tells the engine that the call begins. Resolves when the news has left. Not called with one place. */
  announce(call: Call): Promise<void>;
  /** Runs the call and sends its reply. Resolves when the reply has left. */
  run(call: Call): Promise<void>;
}

interface Started<Call> {
  readonly call: Call;
  readonly settle: { readonly resolve: () => void; readonly reject: (thrown: unknown) => void };
}

export class Places<Call> {
  readonly #count: number;
  readonly #host: PlacesHost<Call>;
  readonly #waiting: Started<Call>[] = [];
  readonly #running: Set<Started<Call>> = new Set();
  #isStarting = false;
  /** Settles the promises of `empty`. */
  readonly #whenEmpty: (() => void)[] = [];

  constructor(count: number, host: PlacesHost<Call>) {
    this.#count = count;
    this.#host = host;
  }

  /** The calls that wait or run. */
  get calls(): Call[] {
    return [...this.#running, ...this.#waiting].map(({ call }) => call);
  }

  /** Resolves when the call has run. */
  add(call: Call): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, settle: { resolve, reject } });
      void this.#start();
    });
  }

  /** Resolves when nothing waits or runs. */
  empty(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenEmpty.push(resolve);
      this.#tellIfEmpty();
    });
  }

  #tellIfEmpty(): void {
    if (this.#running.size === 0 && this.#waiting.length === 0) for (const tell of this.#whenEmpty.splice(0)) tell();
  }

  async #start(): Promise<void> {
    if (this.#isStarting) return;
    this.#isStarting = true;
    // Yield once: the frames that arrived with the call may cancel it.
    await null;
    while (this.#running.size < this.#count) {
      const next = this.#waiting.shift();
      if (!next) break;
      this.#running.add(next);
      if (this.#count > 1) await this.#host.announce(next.call);
      void this.#run(next);
      if (this.#count > 1) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#isStarting = false;
  }

  async #run(started: Started<Call>): Promise<void> {
    const { call, settle } = started;
    try {
      await this.#host.run(call);
      settle.resolve();
    } catch (thrown) {
      settle.reject(thrown);
    }
    this.#running.delete(started);
    this.#tellIfEmpty();
    void this.#start();
  }
}
