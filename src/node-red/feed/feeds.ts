/** Tracks the running paced splits: the split that each message belongs to, and each node's unsettled messages. */

/** A flow may write parts that contain themselves. */
const MOST_NESTED = 100;

interface FeedParts {
  readonly id: string;
  readonly index?: number;
  readonly parts?: FeedParts;
}

/** One input that a paced split is splitting. */
export interface FeedSequence {
  /**
   * Records that a pipeline takes in a message made from an item. Returns a function to call when the pipeline is done
   * with the message, or undefined if the item has settled.
   */
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

  /** Resolves when one more message may be sent, and counts it as unsettled. */
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

  /** Resets the count to zero and wakes all waiting runs, which then see that they were stopped. */
  reset(): void {
    this.#unsettled = 0;
    for (const wake of this.#waiting.splice(0)) wake();
    this.#onChange();
  }
}

export class Feeds {
  /** Running sequences, by the id that a paced split writes into `msg.parts`. */
  readonly #sequences: Map<string, FeedSequence> = new Map();

  open(id: string, sequence: FeedSequence): void {
    this.#sequences.set(id, sequence);
  }

  close(id: string): void {
    this.#sequences.delete(id);
  }

  /**
   * Returns a function to call when a pipeline is done with a message, or undefined if no paced split waits for the
   * message. Finds an item that was split again by its outer parts.
   */
  waiterFor(msg: { readonly parts?: object | undefined }): (() => void) | undefined {
    const leaves: (() => void)[] = [];
    let parts = msg.parts as FeedParts | undefined;
    for (let depth = 0; parts && depth < MOST_NESTED; depth += 1, parts = parts.parts) {
      const leave = this.#sequences.get(parts.id)?.enter(parts.index ?? 0);
      if (leave) leaves.push(leave);
    }
    if (leaves.length === 0) return undefined;
    return () => {
      for (const leave of leaves) leave();
    };
  }
}
