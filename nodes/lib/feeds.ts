/** The paced splits that run: which message belongs to which, and how many of a node's have not been settled. */

/** One node's window over its unsettled messages. */
export class FeedWindow {
  readonly #size: number;
  readonly #onChange: () => void;
  readonly #waiting: (() => void)[] = [];
  #unsettled = 0;

  constructor(size: number, onChange: () => void) {
    this.#size = size;
    this.#onChange = onChange;
  }

  get unsettled(): number {
    return this.#unsettled;
  }

  /** Resolves when one more message may go; it counts from then on. */
  async enter(): Promise<void> {
    while (this.#unsettled >= this.#size) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#unsettled += 1;
    this.#onChange();
  }

  leave(): void {
    this.#unsettled -= 1;
    this.#waiting.shift()?.();
    this.#onChange();
  }

  /** Counts from zero again, and lets all that wait look why. */
  reset(): void {
    this.#unsettled = 0;
    for (const wake of this.#waiting.splice(0)) wake();
    this.#onChange();
  }
}

export class Feeds {
  /** By the sequence id that a paced split writes into `msg.parts`. */
  readonly #sequences: Map<string, () => void> = new Map();

  /** `settled` is called for each message of the sequence that a pipeline is through with. */
  open(sequence: string, settled: () => void): void {
    this.#sequences.set(sequence, settled);
  }

  close(sequence: string): void {
    this.#sequences.delete(sequence);
  }

  /** What to call when a pipeline is through with a message; undefined if no paced split waits for it. */
  waiterFor(msg: { readonly parts?: { readonly id: string } | undefined }): (() => void) | undefined {
    return msg.parts && this.#sequences.get(msg.parts.id);
  }
}
