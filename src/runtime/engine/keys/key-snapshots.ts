/**
 * The states of a stage's keys as their last answered items have left them, for the workers that take the keys over. They
 * have a limit together: those of the keys without an answer for longest go first, and live on only in their workers.
 */
import { isEmptied, keyIn, withState } from '../../../wire/frames/key-snapshots.ts';
import type { Item } from '../stage/item.ts';
import type { KeptState } from './kept-states.ts';

interface Snapshot {
  /** If two keys have the same hash, only the key that was answered last has a snapshot. */
  readonly key: string;
  readonly bytes: Uint8Array;
}

export class KeySnapshots {
  #maxBytes = 0;
  /** By the hash of the key. The key that was answered last is at the end. */
  readonly #held: Map<number, Snapshot> = new Map();
  #bytes = 0;

  /** Those of all keys; the key that was answered last is at the end. */
  get all(): readonly KeptState[] {
    return [...this.#held.values()].map(({ key, bytes }) => [key, bytes]);
  }

  set maxBytes(bytes: number) {
    this.#maxBytes = bytes;
    this.#shrink();
  }

  has(hash: number): boolean {
    return this.#held.has(hash);
  }

  /** Takes the meta of the reply to an item. Returns false if the key has no state any more. */
  answered(item: Item, meta: Uint8Array | null): boolean {
    const { key } = item;
    const known = this.#held.get(key);
    if (meta && isEmptied(meta)) {
      this.forget(key);
      return false;
    }
    // A copy, because the meta is a view into a frame.
    const bytes = meta ? new Uint8Array(meta) : known?.bytes;
    if (!bytes || this.#maxBytes === 0) return true;
    this.set(key, meta || !known ? keyIn(item).key : known.key, bytes);
    return true;
  }

  set(hash: number, key: string, bytes: Uint8Array): void {
    this.forget(hash);
    this.#held.set(hash, { key, bytes });
    this.#bytes += bytes.byteLength;
    this.#shrink();
  }

  /** Returns the meta of an item with the state of its key; null without a snapshot. */
  metaOf(item: Item): Uint8Array | null {
    const known = this.#held.get(item.key);
    return known && known.key === keyIn(item).key ? withState(item, known.bytes) : null;
  }

  forget(hash: number): void {
    this.#bytes -= this.#held.get(hash)?.bytes.byteLength ?? 0;
    this.#held.delete(hash);
  }

  #shrink(): void {
    for (const hash of this.#held.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.forget(hash);
    }
  }
}
