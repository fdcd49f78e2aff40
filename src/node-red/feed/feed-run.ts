/** Splits one input of a paced split: sends items as the window allows, and ends when all items have settled. */
import type { Node, NodeAPI, NodeMessageInFlow } from 'node-red';
import { DEFAULT_LIMITS, type FeedConfig } from '../../config/compile.ts';
import { ModeletError } from '../../core/errors.ts';
import { readMessageBody } from '../http/bodies.ts';
import { deliverToCatchNodes } from '../request/error-exit.ts';
import { type PipelineMessage, sendFrom } from '../request/messages.ts';
import { feedItems } from './feed-source.ts';
import type { FeedSequence, Feeds, FeedWindow } from './feeds.ts';

/**
 * Turns of the event loop after which an item counts as settled. An item that leaves a pipeline may pass through other
 * nodes to the next pipeline, and Node-RED takes one turn for each hop.
 */
const TURNS_BETWEEN_PIPELINES = 8;

interface UnsettledItem {
  /** Number of pipelines that have the item. */
  passes: number;
}

export class FeedRun implements FeedSequence {
  readonly #RED: NodeAPI;
  readonly #node: Node;
  readonly #window: FeedWindow;
  readonly #sequence: string;
  /** Unsettled items, by index. */
  readonly #unsettled: Map<number, UnsettledItem> = new Map();
  #stopped = false;
  #wake: () => void = () => {};

  constructor(RED: NodeAPI, node: Node, window: FeedWindow) {
    this.#RED = RED;
    this.#node = node;
    this.#window = window;
    this.#sequence = RED.util.generateId();
  }

  enter(index: number): (() => void) | undefined {
    const item = this.#unsettled.get(index);
    if (!item) return undefined;
    item.passes += 1;
    return () => {
      item.passes -= 1;
      this.#settleUnlessTaken(index, item, TURNS_BETWEEN_PIPELINES);
    };
  }

  /** Stops sending items. The caller must reset the window. */
  stop(): void {
    this.#stopped = true;
    this.#wake();
  }

  /** Resolves when the last item has settled or the run was stopped. Rejects if the input cannot be split. */
  async run(msg: NodeMessageInFlow, from: FeedConfig['from'], feeds: Feeds): Promise<void> {
    // Any media type is accepted: the sender must know whether the body can be split.
    readMessageBody(msg as PipelineMessage, { mediaTypes: null, maxBytes: DEFAULT_LIMITS.maxPayloadBytes });
    feeds.open(this.#sequence, this);
    try {
      await this.#sendAll(msg, from);
    } finally {
      while (this.#unsettled.size > 0 && !this.#stopped) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
      feeds.close(this.#sequence);
    }
  }

  async #sendAll(msg: NodeMessageInFlow, from: FeedConfig['from']): Promise<void> {
    const { payload: _, ...rest } = msg;
    let index = 0;
    for await (const { value, last } of feedItems(this.#RED, msg, from)) {
      await this.#window.enter();
      if (this.#stopped) {
        this.#window.leave();
        return;
      }
      this.#send(rest, value, { index, ...(last ? { count: index + 1 } : {}) });
      index += 1;
    }
  }

  #send(
    rest: Omit<NodeMessageInFlow, 'payload'>,
    value: unknown,
    place: { readonly index: number; readonly count?: number },
  ): void {
    // As in the core split node, a split inside a split keeps the outer sequence in parts.parts.
    const outer = rest.parts === undefined ? {} : { parts: rest.parts };
    const parts = { id: this.#sequence, type: 'array', len: 1, ...place, ...outer };
    this.#unsettled.set(place.index, { passes: 0 });
    let isSent = false;
    try {
      const item = this.#RED.util.cloneMessage({ ...rest, _msgid: this.#RED.util.generateId(), parts });
      Object.assign(item, { payload: value });
      if (value instanceof ModeletError) {
        deliverToCatchNodes(this.#RED, this.#node, { ...item, payload: undefined }, value);
      } else {
        sendFrom(this.#RED, this.#node, [item]);
        isSent = true;
      }
    } finally {
      // Node-RED cannot clone every message.
      if (!isSent) this.#settle(place.index);
    }
  }

  #settleUnlessTaken(index: number, item: UnsettledItem, turns: number): void {
    if (item.passes > 0) return;
    if (turns === 0) this.#settle(index);
    else setImmediate(() => this.#settleUnlessTaken(index, item, turns - 1));
  }

  #settle(index: number): void {
    // The window of a stopped run was reset and no longer counts its items.
    if (this.#unsettled.delete(index) && !this.#stopped) this.#window.leave();
    this.#wake();
  }
}
