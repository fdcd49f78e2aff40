/** One input on its way through a paced split: sends its items as the window lets them go, ends when all are settled. */
import type { Node, NodeAPI, NodeMessageInFlow } from 'node-red';
import { type FeedConfig, ModeletError } from '../../src/index.ts';
import { feedItems } from './feed-source.ts';
import type { Feeds, FeedWindow } from './feeds.ts';

export class FeedRun {
  readonly #RED: NodeAPI;
  readonly #node: Node;
  readonly #window: FeedWindow;
  readonly #stop: AbortSignal;
  readonly #sequence: string;
  #unsettled = 0;
  #wake: () => void = () => {};

  constructor(RED: NodeAPI, node: Node, window: FeedWindow, stop: AbortSignal) {
    this.#RED = RED;
    this.#node = node;
    this.#window = window;
    this.#stop = stop;
    this.#sequence = RED.util.generateId();
    stop.addEventListener('abort', () => this.#wake(), { once: true });
  }

  /** Resolves when the last item has settled, or the run was stopped. Rejects for an input that cannot be taken apart. */
  async run(msg: NodeMessageInFlow, from: FeedConfig['from'], feeds: Feeds): Promise<void> {
    feeds.open(this.#sequence, () => this.#settled());
    try {
      let index = 0;
      for await (const { value, last } of feedItems(this.#RED, msg, from)) {
        await this.#window.enter();
        if (this.#stop.aborted) {
          this.#window.leave();
          return;
        }
        this.#send(msg, value, { index, ...(last ? { count: index + 1 } : {}) });
        index += 1;
      }
      while (this.#unsettled > 0 && !this.#stop.aborted) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      feeds.close(this.#sequence);
    }
  }

  #send(msg: NodeMessageInFlow, value: unknown, place: { readonly index: number; readonly count?: number }): void {
    // As core split does it: a split inside a split keeps the outer sequence in parts.parts.
    const outer = msg.parts === undefined ? {} : { parts: msg.parts };
    const parts = { id: this.#sequence, type: 'array', len: 1, ...place, ...outer };
    const item = { ...msg, _msgid: this.#RED.util.generateId(), payload: value, parts };
    this.#unsettled += 1;
    if (value instanceof ModeletError) {
      this.#node.error(value, { ...item, payload: undefined, statusCode: value.statusCode });
      this.#settled();
    } else {
      this.#node.send(item);
    }
  }

  #settled(): void {
    this.#unsettled -= 1;
    this.#window.leave();
    this.#wake();
  }
}
