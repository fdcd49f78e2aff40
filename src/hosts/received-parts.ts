/**
 * Receives the parts of results that hosts make for this runtime, and tells the hosts how many the flow has taken. The
 * hosts write them into one stream on the broker, in order; a part that was read is deleted there. Parts have numbers,
 * so a part that comes twice counts once, and a missing part is noticed.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { BinaryEntry, BinaryReader, BrokerLink } from '../broker/broker-link.ts';
import type { WireItem } from '../wire/frames/frames.ts';
import { decodeParts, partsKeyOf } from './batches.ts';
import type { HostMessage } from './registry.ts';

export interface PartsEvents {
  /** Call `taken` with the number of the item's parts that the flow has taken. */
  onPart(batch: string, part: WireItem, taken: (parts: number) => void): void;
  /** Parts of a batch are lost. */
  onMissing(batch: string): void;
  /** Sends a message to a host. It may be lost. */
  tell(host: string, message: Extract<HostMessage, { tag: 'taken' }>): void;
}

interface Receiving {
  host: string;
  readonly received: Map<number, number>;
  readonly taken: Map<number, number>;
}

const BLOCK_MS = 2000;
const RETRY_MS = 100;
const MOST = 100;

export class ReceivedParts {
  readonly #link: BrokerLink;
  readonly #stage: string;
  readonly #keyName: string;
  readonly #events: PartsEvents;
  readonly #batches: Map<string, Receiving> = new Map();
  /** Batches whose host shall be told what was taken. */
  readonly #due: Set<string> = new Set();
  /** Null until a first batch has parts. */
  #reader: BinaryReader | null = null;
  /** The last entry that the reader has read. */
  #last = '0-0';

  /** @param session the first word of the names of this runtime's batches */
  constructor(link: BrokerLink, stage: string, session: string, events: PartsEvents) {
    this.#link = link;
    this.#stage = stage;
    this.#keyName = partsKeyOf(session);
    this.#events = events;
  }

  /** Receives the parts of a batch until `end`. */
  begin(batch: string): void {
    this.#batches.set(batch, { host: '', received: new Map(), taken: new Map() });
    if (this.#reader) return;
    this.#reader = this.#link.anotherBinary();
    this.#reader.connect().catch(() => {});
    void this.#follow(this.#reader);
  }

  end(batch: string): void {
    this.#batches.delete(batch);
  }

  /**
   * Resolves when all parts of a batch have been passed on that were sent before its replies.
   * @param replies tell how many there are
   */
  async all(batch: string, replies: readonly WireItem[]): Promise<void> {
    const lacks = (): boolean => {
      const received = this.#batches.get(batch)?.received;
      return received !== undefined && replies.some(({ id, part }) => part > (received.get(id) ?? 0));
    };
    if (!lacks()) return;
    const read = await this.#link.reach(({ binary, queue }) =>
      binary.xRange(queue.toKey(this.#keyName), this.#last, '+'),
    );
    for (const entry of read) this.#read(entry);
    if (lacks()) throw new Error('parts of its result are no longer on the broker');
  }

  /** Tells hosts again what was taken, because a message may be lost, and that this runtime is there. */
  tellAgain(): void {
    for (const [batch, { host }] of this.#batches) if (host !== '') this.#due.add(batch);
    this.#tell();
  }

  close(): void {
    this.#reader?.destroy();
    this.#reader = null;
  }

  async #follow(reader: BinaryReader): Promise<void> {
    while (this.#reader === reader) {
      try {
        const key = await this.#link.reach(async ({ queue }) => queue.toKey(this.#keyName));
        const streams = await reader.xRead([{ key, id: this.#last }], { BLOCK: BLOCK_MS, COUNT: MOST });
        const entries = (streams ?? []).flatMap(({ messages }) => messages);
        const ids = entries.map(({ id }) => String(id));
        this.#last = ids.at(-1) ?? this.#last;
        for (const entry of entries) this.#read(entry);
        if (ids.length > 0) void this.#link.command((server) => server.xDel(key, ids)).catch(() => {});
      } catch {
        await pause(RETRY_MS);
      }
    }
  }

  #read({ message }: BinaryEntry): void {
    const batch = String(message['batch']);
    const receiving = this.#batches.get(batch);
    if (!receiving) return;
    receiving.host = String(message['host']);
    for (const part of decodeParts(message['parts'] ?? Buffer.alloc(0))) {
      const next = receiving.received.get(part.id) ?? 0;
      if (part.part < next) continue;
      if (part.part > next) {
        this.#events.onMissing(batch);
        return;
      }
      receiving.received.set(part.id, next + 1);
      this.#events.onPart(batch, part, (parts) => this.#took(batch, part.id, parts));
    }
  }

  #took(batch: string, item: number, parts: number): void {
    const receiving = this.#batches.get(batch);
    if (!receiving) return;
    receiving.taken.set(item, parts);
    if (this.#due.size === 0) setImmediate(() => this.#tell());
    this.#due.add(batch);
  }

  #tell(): void {
    for (const batch of this.#due) {
      const { host, taken } = this.#batches.get(batch) ?? { host: '', taken: [] };
      if (host !== '') this.#events.tell(host, { tag: 'taken', stage: this.#stage, batch, taken: [...taken] });
    }
    this.#due.clear();
  }
}
