/**
 * Collects the items of one turn of the event loop and sends them as one frame: the wake-up of the other
 * process is what costs, not the copy.
 */

import { itemLength, type WireItem } from '../frames/items.ts';
import { isLarge } from './bulk-lane.ts';
import type { Channel } from './channel.ts';

/** A frame is sent early when it has grown to this, so that memory and the other side's wait stay bounded. */
const FULL_FRAME = 4 * 1024 * 1024;

type OutboxType = 'submit' | 'outcomes' | 'parts' | 'taps' | 'calls' | 'answers';

export class Outbox {
  readonly #type: OutboxType;
  readonly #channel: () => Pick<Channel, 'send'> | null;
  #items: WireItem[] = [];
  #bytes = 0;
  #flushing: NodeJS.Immediate | null = null;

  /** `channel` is asked at each flush: items of a turn in which the channel went away are dropped. */
  constructor(type: OutboxType, channel: () => Pick<Channel, 'send'> | null) {
    this.#type = type;
    this.#channel = channel;
  }

  add(item: WireItem): void {
    if (isLarge(item.payload)) {
      // On its own it holds up no other; what came before it goes first.
      this.flush();
      this.#channel()?.send({ type: this.#type, items: [item] });
      return;
    }
    this.#items.push(item);
    this.#bytes += itemLength(item);
    if (this.#bytes >= FULL_FRAME) this.flush();
    else this.#flushing ??= setImmediate(() => this.flush());
  }

  flush(): void {
    if (this.#flushing) clearImmediate(this.#flushing);
    this.#flushing = null;
    if (this.#items.length === 0) return;
    const items = this.#items;
    this.#items = [];
    this.#bytes = 0;
    this.#channel()?.send({ type: this.#type, items });
  }
}
