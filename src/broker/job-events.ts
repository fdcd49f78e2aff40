/**
 * Follows what happens to the jobs of a queue, by the stream of events that BullMQ writes beside it. It reads on where
 * it stopped when the connection comes back, so it misses an event only if the stream was cut meanwhile: BullMQ keeps
 * about the last 10,000. Callers therefore also look at a job itself from time to time.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { RedisClientType } from 'redis';
import type { BrokerLink } from './broker-link.ts';
import { itemIdOf } from './jobs.ts';

/** `waiting`: a job can be claimed. `ended`: it has an outcome. `dead`: its attempts are exhausted. */
export type JobEvent =
  | { readonly tag: 'waiting' }
  | { readonly tag: 'ended'; readonly id: string; readonly outcome: string }
  | { readonly tag: 'dead'; readonly id: string; readonly reason: string };

type StreamEntry = { readonly id: string; readonly message: Readonly<Record<string, string>> };

const BLOCK_MS = 2000;
const RETRY_MS = 100;
/** Most events read at once. */
const MOST = 500;

export class JobEvents {
  readonly #reader: RedisClientType;
  readonly #link: BrokerLink;
  readonly #onEvent: (event: JobEvent) => void;
  #isClosed = false;
  /** The last entry that was read; null before the first look at the stream. */
  #last: string | null = null;

  constructor(link: BrokerLink, onEvent: (event: JobEvent) => void) {
    this.#link = link;
    this.#onEvent = onEvent;
    this.#reader = link.another();
  }

  /** Resolves when events are followed, or when the reader was closed before. */
  async start(): Promise<void> {
    this.#reader.connect().catch(() => {});
    while (!this.#isClosed && this.#last === null) {
      try {
        const key = await this.#key();
        const [latest] = (await this.#reader.xRevRange(key, '+', '-', { COUNT: 1 })) as StreamEntry[];
        this.#last = latest?.id ?? '0-0';
        void this.#follow(key);
      } catch {
        await pause(RETRY_MS);
      }
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#reader.destroy();
  }

  #key(): Promise<string> {
    return this.#link.reach(async ({ queue }) => queue.toKey('events'));
  }

  async #follow(key: string): Promise<void> {
    while (!this.#isClosed) {
      try {
        const from = { key, id: this.#last ?? '0-0' };
        const streams = await this.#reader.xRead([from], { BLOCK: BLOCK_MS, COUNT: MOST });
        for (const { messages } of (streams ?? []) as readonly { readonly messages: readonly StreamEntry[] }[]) {
          for (const entry of messages) this.#read(entry);
        }
      } catch {
        await pause(RETRY_MS);
      }
    }
  }

  #read({ id, message }: StreamEntry): void {
    this.#last = id;
    const { event, jobId = '', returnvalue = '', failedReason = '' } = message;
    if (event === 'waiting') this.#onEvent({ tag: 'waiting' });
    else if (event === 'completed') this.#onEvent({ tag: 'ended', id: itemIdOf(jobId), outcome: returnvalue });
    else if (event === 'failed') this.#onEvent({ tag: 'dead', id: itemIdOf(jobId), reason: failedReason });
  }
}
