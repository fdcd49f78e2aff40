/**
 * Sends the parts of results from a host to the runtimes that wait for them: each runtime has a stream on the broker,
 * into which go the parts of all its batches, in order. Parts that come while others are on their way go together.
 *
 * A runtime says how many parts it has taken, and the worker makes no more than a few ahead of that. A runtime that
 * says nothing for `SILENT_MS` while parts wait for it is gone, and so is the need for them.
 */
import type { BrokerLink } from '../../broker/broker-link.ts';
import type { Clock } from '../../core/clock.ts';
import type { Payload } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { bareItem } from '../../wire/frames/items.ts';
import { encodeParts, PARTS_KEPT_MS, partsKeyOf } from '../batches.ts';

interface Sending {
  /** Parts so far, by item. */
  readonly sent: Map<number, number>;
  /** Parts that were not taken, by item and index: tells the engine that they were. */
  readonly open: Map<number, Map<number, () => void>>;
  /** Time at which the runtime last said something, or at which the batch began. */
  heardAt: number;
  waiting: WireItem[];
  /** Ends when no part waits. */
  sending: Promise<void> | null;
}

const SILENT_MS = 15_000;

export class SentParts {
  readonly #link: BrokerLink;
  readonly #host: string;
  readonly #clock: Clock;
  readonly #onFailed: (batch: string) => void;
  readonly #batches: Map<string, Sending> = new Map();

  /** @param onFailed parts of the batch cannot be sent */
  constructor(link: BrokerLink, host: string, clock: Clock, onFailed: (batch: string) => void) {
    this.#link = link;
    this.#host = host;
    this.#clock = clock;
    this.#onFailed = onFailed;
  }

  /** Sends a part. Calls `taken` when the runtime has taken it, or a later one. */
  send(batch: string, item: number, index: number, payload: Payload, taken: () => void): void {
    const now = this.#clock.now();
    const none = { sent: new Map(), open: new Map(), heardAt: now, waiting: [], sending: null };
    const sending: Sending = this.#batches.get(batch) ?? none;
    this.#batches.set(batch, sending);
    const open = sending.open.get(item) ?? new Map<number, () => void>();
    sending.open.set(item, open);
    // While no part waited for it, the runtime had nothing to say.
    if (open.size === 0) sending.heardAt = now;
    open.set(index, taken);
    sending.sent.set(item, index + 1);
    sending.waiting.push({ ...bareItem(item, payload), part: index });
    sending.sending ??= this.#sendAll(batch, sending);
  }

  sentOf(batch: string, item: number): number {
    return this.#batches.get(batch)?.sent.get(item) ?? 0;
  }

  /** Resolves when all parts of a batch are on the broker, or cannot be sent. */
  async flushed(batch: string): Promise<void> {
    await this.#batches.get(batch)?.sending;
  }

  taken(batch: string, items: readonly (readonly [item: number, parts: number])[]): void {
    const sending = this.#batches.get(batch);
    if (!sending) return;
    sending.heardAt = this.#clock.now();
    for (const [item, parts] of items) {
      const open = sending.open.get(item);
      const last = open?.get(parts - 1);
      for (const index of [...(open?.keys() ?? [])]) if (index < parts) open?.delete(index);
      last?.();
    }
  }

  forget(batch: string): void {
    this.#batches.delete(batch);
  }

  /** Returns the batches whose runtime is silent while parts wait for it. */
  abandoned(): string[] {
    const since = this.#clock.now() - SILENT_MS;
    return [...this.#batches].flatMap(([batch, { open, heardAt }]) => {
      return heardAt < since && [...open.values()].some(({ size }) => size > 0) ? [batch] : [];
    });
  }

  async #sendAll(batch: string, sending: Sending): Promise<void> {
    // Parts of the same turn go together.
    await Promise.resolve();
    while (sending.waiting.length > 0) await this.#write(batch, sending.waiting.splice(0));
    sending.sending = null;
  }

  /** A repeated write does no harm: parts have numbers. */
  async #write(batch: string, items: readonly WireItem[]): Promise<void> {
    const fields = { host: this.#host, batch, parts: encodeParts(items) };
    try {
      await this.#link.reach(({ server, queue }) => {
        const key = queue.toKey(partsKeyOf(batch));
        return Promise.all([server.xAdd(key, '*', fields), server.pExpire(key, PARTS_KEPT_MS)]);
      });
    } catch {
      this.#onFailed(batch);
    }
  }
}
