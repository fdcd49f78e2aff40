/** Requests that nobody waits for any more, of batches that are not done. */
import type { RequestNumber } from '../../core/model.ts';
import type { Frame } from './frames.ts';

export class Unwanted {
  #ids: Set<RequestNumber> = new Set();

  add(ids: readonly RequestNumber[]): void {
    for (const id of ids) this.#ids.add(id);
  }

  has(id: RequestNumber): boolean {
    return this.#ids.has(id);
  }

  /** Those of a frame. */
  of(frame: Frame): RequestNumber[] {
    if (frame.type !== 'batch' || this.#ids.size === 0) return [];
    return frame.items.map(({ id }) => id).filter((id) => this.#ids.has(id));
  }

  /** Forgets all but those of the frames that still wait: there may never be a time when none does. */
  keepOnly(waiting: readonly Frame[]): void {
    if (this.#ids.size > 0) this.#ids = new Set(waiting.flatMap((frame) => this.of(frame)));
  }
}
