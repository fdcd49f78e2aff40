/**
 * Collects the items of one turn of the event loop and sends them as one frame, because waking the other process costs
 * more than copying the items.
 */
import { isLarge } from '../frames/frames.ts';
import { itemLength, type WireItem } from '../frames/items.ts';
import type { Channel } from './channel.ts';

/** Frame size in bytes at which the outbox sends early, to limit its memory and the delay of the other side. */
const FULL_FRAME = 4 * 1024 * 1024;

type OutboxType = 'submit' | 'outcomes' | 'parts' | 'taps' | 'calls' | 'answers';

export class Outbox {
  readonly #type: OutboxType;
  readonly #send: Channel['send'];
  #items: WireItem[] = [];
  #bytes = 0;
  #flushing: NodeJS.Immediate | null = null;

  constructor(type: OutboxType, send: Channel['send']) {
    this.#type = type;
    this.#send = send;
  }

  add(item: WireItem): void {
    if (isLarge(item.payload)) {
      // A large item goes in its own frame, so that it delays no other item. Earlier items go first.
      this.flush();
      this.#send({ type: this.#type, items: [item] });
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
    this.#send({ type: this.#type, items });
  }
}
