/**
 * The registry of a runtime on its broker: the stages that worker hosts shall run, the hosts that are there, and short
 * messages to them. A heartbeat renews every entry, which counts for `FRESH_MS`, so a process that dies takes its
 * entries with it. Times are the server's, because the clocks of machines differ.
 */
import type { RedisClientType } from 'redis';
import type { BrokerLink } from '../broker/broker-link.ts';
import { type Clock, type Deadline, systemClock } from '../core/clock.ts';
import type { RemotePlace } from '../core/model.ts';

/** Time between two heartbeats, each of which renews an entry, and how long an entry counts. */
export const HEARTBEAT_MS = 1000;
const FRESH_MS = 6000;

/** To all hosts of a stage: forget these items, or start new workers. To one host: so many parts of results were taken. */
export type HostMessage =
  | { readonly tag: 'cancel'; readonly stage: string; readonly batch: string; readonly items: readonly number[] }
  | { readonly tag: 'restart'; readonly stage: string }
  | {
      readonly tag: 'taken';
      readonly stage: string;
      readonly batch: string;
      readonly taken: readonly (readonly [item: number, parts: number])[];
    };

interface RegistryEntry {
  /** Time of the server. */
  readonly at: number;
  readonly text: string;
}

type EntryKind = 'stages' | 'hosts';

/** Entries of a kind, by their names. */
export interface RegistryEntries {
  readonly fresh: ReadonlyMap<string, string>;
  /** Their processes have ended, or are slow. The last words of a host are among them. */
  readonly stale: ReadonlyMap<string, string>;
}

export class RemoteRegistry {
  readonly #link: BrokerLink;
  readonly #key: string;
  readonly #clock: Clock;
  /** How far the server's clock is ahead of this machine's monotonic one, in ms; null before the first look. */
  #ahead: number | null = null;

  constructor(
    link: BrokerLink,
    { prefix, runtime }: Pick<RemotePlace, 'prefix' | 'runtime'>,
    clock: Clock = systemClock,
  ) {
    this.#link = link;
    this.#key = `${prefix}:remote:${encodeURIComponent(runtime)}`;
    this.#clock = clock;
  }

  /**
   * Writes an entry, or renews it, and returns the entries of a kind.
   * @param current returns the entry when it is written; null: it is not wanted any more
   */
  async renew(
    current: () => { readonly kind: EntryKind; readonly name: string; readonly text: string } | null,
    wanted: EntryKind,
  ): Promise<RegistryEntries> {
    return this.#link.command(async (server) => {
      const now = await this.#look(server);
      const own = current();
      if (own) await server.hSet(this.#of(own.kind), own.name, JSON.stringify({ at: now, text: own.text }));
      const fresh = new Map<string, string>();
      const stale = new Map<string, string>();
      for (const [name, json] of Object.entries(await server.hGetAll(this.#of(wanted)))) {
        const { at, text } = JSON.parse(json) as RegistryEntry;
        if (Math.abs(now - at) <= FRESH_MS) fresh.set(name, text);
        // A process that died has left it.
        else if (now - at > 10 * FRESH_MS) await server.hDel(this.#of(wanted), name);
        else stale.set(name, text);
      }
      return { fresh, stale };
    });
  }

  async remove(kind: EntryKind, name: string): Promise<void> {
    await this.#link.command((server) => server.hDel(this.#of(kind), name));
  }

  /**
   * Sends a message to the hosts that listen now. A host that does not listen does not get it.
   * @param host the only host that gets it; null: all
   */
  async send(message: HostMessage, host: string | null = null): Promise<void> {
    const channel = this.#channel(host);
    await this.#link.command((server) => server.publish(channel, JSON.stringify(message)));
  }

  /** Listens for messages to all hosts and to this one until the returned function is called. Connects anew for ever. */
  subscribe(host: string, onMessage: (message: HostMessage) => void): () => void {
    const channels = [this.#channel(null), this.#channel(host)];
    const listener = this.#link.another();
    listener
      .connect()
      .then(() => listener.subscribe(channels, (text) => onMessage(JSON.parse(text) as HostMessage)))
      .catch(() => {});
    return () => listener.destroy();
  }

  /** Converts a deadline of this machine to the server's clock, which JSON and other machines can carry. */
  toServer(deadline: Deadline): number {
    return deadline === Number.POSITIVE_INFINITY ? 0 : deadline + (this.#ahead ?? 0);
  }

  fromServer(time: number): Deadline {
    return time === 0 ? Number.POSITIVE_INFINITY : time - (this.#ahead ?? 0);
  }

  async #look(server: RedisClientType): Promise<number> {
    const before = this.#clock.now();
    const [seconds, micros] = (await server.sendCommand(['TIME'])) as unknown as [string, string];
    const now = Number(seconds) * 1000 + Number(micros) / 1000;
    this.#ahead = now - (before + this.#clock.now()) / 2;
    return now;
  }

  #channel(host: string | null): string {
    return host === null ? this.#of('messages') : `${this.#of('messages')}:${host}`;
  }

  #of(name: EntryKind | 'messages'): string {
    return `${this.#key}:${name}`;
  }
}
