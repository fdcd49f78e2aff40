/**
 * Sends the parts of results. The flow acknowledges the parts it has taken. For each result the number of
 * unacknowledged parts is limited, so that an endless result waits for its reader.
 */
import type { RequestNumber } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/items.ts';

/** The next part waits while this many parts are sent but not taken. */
export const MOST_UNDER_WAY = 16;
/** The next part waits while the parts not taken have this many bytes together. A single part may be larger. */
export const MOST_BYTES_UNDER_WAY: number = 1024 * 1024;

interface RunningStream {
  readonly stop: () => void;
  /** Sizes in bytes of the parts sent but not taken. */
  readonly sizes: number[];
  taken: number;
  /** Resumes the sender that waits for room. */
  wake: () => void;
}

export class PartsOut {
  readonly #send: (part: WireItem) => void;
  readonly #running: Map<RequestNumber, RunningStream> = new Map();

  constructor(send: (part: WireItem) => void) {
    this.#send = send;
  }

  /** Begins a result in parts. Calls `stop` when the request is cancelled. Returns a function to call at the end. */
  begin(id: RequestNumber, stop: () => void): () => void {
    this.#running.set(id, { stop, sizes: [], taken: 0, wake: () => {} });
    return () => this.#running.delete(id);
  }

  /**
   * Sends a part of a result that has begun, and resolves when its next part may be sent. Resolves at once without
   * sending if the part belongs to no such result.
   */
  async send(part: WireItem): Promise<void> {
    const running = this.#running.get(part.id);
    if (!running) return;
    running.sizes.push(part.payload.bytes.byteLength);
    this.#send(part);
    while (isFull(running) && this.#running.get(part.id) === running) {
      await new Promise<void>((resolve) => {
        running.wake = resolve;
      });
    }
  }

  /** Notes how many parts of the request the flow has taken in total, and resumes the sender. */
  taken(id: RequestNumber, parts: number): void {
    const running = this.#running.get(id);
    if (!running || parts <= running.taken) return;
    running.sizes.splice(0, parts - running.taken);
    running.taken = parts;
    running.wake();
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const id of ids) {
      const running = this.#running.get(id);
      if (!running) continue;
      running.sizes.length = 0;
      running.stop();
      running.wake();
    }
  }
}

function isFull({ sizes }: RunningStream): boolean {
  return sizes.length >= MOST_UNDER_WAY || sizes.reduce((sum, size) => sum + size, 0) >= MOST_BYTES_UNDER_WAY;
}
