/** The paced splits that run: which message belongs to which, and how many of a node's have not been settled. */

interface Parts {
  readonly id: string;
  readonly index?: number;
  readonly parts?: Parts;
}

/** One input that is being taken apart. */
export interface FeedSequence {
  /** A pipeline takes in a message made of one of its items; returns what to call when it is through with that. */
  enter(index: number): (() => void) | undefined;
}

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
  readonly #noneOpen: () => void;
  /** By the sequence id that a paced split writes into `msg.parts`. */
  readonly #sequences: Map<string, FeedSequence> = new Map();

  /** @param noneOpen called when the last sequence has ended */
  constructor(noneOpen: () => void) {
    this.#noneOpen = noneOpen;
  }

  get isNoneOpen(): boolean {
    return this.#sequences.size === 0;
  }

  open(id: string, sequence: FeedSequence): void {
    this.#sequences.set(id, sequence);
  }

  close(id: string): void {
    this.#sequences.delete(id);
    if (this.isNoneOpen) this.#noneOpen();
  }

  /**
   * What to call when a pipeline is through with a message; undefined if no paced split waits for it. An item that was
   * split once more is found by its outer parts.
   */
  waiterFor(msg: { readonly parts?: object | undefined }): (() => void) | undefined {
    const leaves: (() => void)[] = [];
    for (let parts = msg.parts as Parts | undefined; parts; parts = parts.parts) {
      const leave = this.#sequences.get(parts.id)?.enter(parts.index ?? 0);
      if (leave) leaves.push(leave);
    }
    if (leaves.length === 0) return undefined;
    return () => {
      for (const leave of leaves) leave();
    };
  }
}
