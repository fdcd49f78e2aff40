/** Keeps the cancelled requests of batches that are not finished. */
import type { RequestNumber } from '../../core/model.ts';
import type { Frame } from './frames.ts';

export class CancelledRequests {
  #ids: Set<RequestNumber> = new Set();

  add(ids: readonly RequestNumber[]): void {
    for (const id of ids) this.#ids.add(id);
  }

  has(id: RequestNumber): boolean {
    return this.#ids.has(id);
  }

  /** Returns the cancelled requests in a frame. */
  of(frame: Frame): RequestNumber[] {
    if (frame.type !== 'batch' || this.#ids.size === 0) return [];
    return frame.items.map(({ id }) => id).filter((id) => this.#ids.has(id));
  }

  /** Forgets all requests that are not in `waiting`. Cannot be left until no frame waits: that may never happen. */
  keepOnly(waiting: readonly Frame[]): void {
    if (this.#ids.size > 0) this.#ids = new Set(waiting.flatMap((frame) => this.of(frame)));
  }
}
