/**
 * The way out for the parts of a result, one of them at a time: a worker runs one item after the other. The flow says
 * how many it has taken, and no more than a few are under way: a result without end waits for whoever reads it.
 */
import type { RequestNumber } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/items.ts';

/** Parts that have been sent and not taken, from which on the next one waits. */
export const MOST_UNDER_WAY = 16;
/** The same in bytes. One part may be larger. */
export const MOST_BYTES_UNDER_WAY: number = 1024 * 1024;

interface Running {
  readonly id: RequestNumber;
  readonly stop: () => void;
  /** Sizes of the parts under way. */
  readonly sizes: number[];
  taken: number;
  /** Whoever waits until there is room. */
  wake: () => void;
}

export class PartsOut {
  readonly #send: (part: WireItem) => void;
  #running: Running | null = null;

  constructor(send: (part: WireItem) => void) {
    this.#send = send;
  }

  /** A result in parts begins. `stop` is called when nobody wants it any more. Returns what to call at its end. */
  begin(id: RequestNumber, stop: () => void): () => void {
    this.#running = { id, stop, sizes: [], taken: 0, wake: () => {} };
    return () => {
      this.#running = null;
    };
  }

  /** Sends a part of the one that runs. Resolves when the next may be sent, at once for one that is not wanted. */
  async send(part: WireItem): Promise<void> {
    const running = this.#running;
    if (running?.id !== part.id) return;
    running.sizes.push(part.payload.bytes.byteLength);
    this.#send(part);
    while (isFull(running) && this.#running === running) {
      await new Promise<void>((resolve) => {
        running.wake = resolve;
      });
    }
  }

  /** So many parts of this request have been taken. */
  taken(id: RequestNumber, parts: number): void {
    const running = this.#running;
    if (running?.id !== id || parts <= running.taken) return;
    running.sizes.splice(0, parts - running.taken);
    running.taken = parts;
    running.wake();
  }

  cancel(ids: readonly RequestNumber[]): void {
    const running = this.#running;
    if (!running || !ids.includes(running.id)) return;
    running.sizes.length = 0;
    running.stop();
    running.wake();
  }
}

function isFull({ sizes }: Running): boolean {
  return sizes.length >= MOST_UNDER_WAY || sizes.reduce((sum, size) => sum + size, 0) >= MOST_BYTES_UNDER_WAY;
}
