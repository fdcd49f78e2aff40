/**
 * The worker hosts of a remote stage with keys. Each has a queue for itself, and the place of a worker in the eyes of the
 * stage: a key has one host until the host is gone, and the host runs its items one after another in one of its workers.
 *
 *   opening   its queue is connected                              -> serving
 *   serving   its keys get batches, unless it has no ready worker -> gone
 *   gone      batches that it has begun may end; the others were taken back. Then its place is free
 */
import type { Clock } from '../core/clock.ts';
import { HAND_OVER_MS } from '../runtime/engine/keys/key-lanes.ts';
import type { Batch, FreeWorker, Room } from '../runtime/engine/pools/pool.ts';
import type { Item } from '../runtime/engine/stage/item.ts';
import type { SentBatches } from './sent-batches.ts';
import type { ServingHost } from './stage-hosts.ts';

interface KeyedHost {
  readonly host: string;
  readonly sent: SentBatches;
  state: 'opening' | 'serving' | 'gone';
  /** Batches that its workers can run at a time, by its last report. */
  lanes: number;
  /** Time since which it has not reported; null: it does. */
  missedSince: number | null;
}

export interface KeyedHostsSpec {
  readonly clock: Clock;
  /** Connects to the queue of a host. */
  connect(host: string): { readonly sent: SentBatches; readonly opened: Promise<void> };
  onChange(): void;
}

/** Returns the name of the queue of a stage, or of its queue for one host. */
export function queueOf(stage: string, host: string | null = null): string {
  return host === null ? `stage-${stage}` : `stage-${stage}-at-${host}`;
}

export class KeyedHosts {
  readonly #spec: KeyedHostsSpec;
  /** Null: the place is free. */
  readonly #places: (KeyedHost | null)[] = [];

  constructor(spec: KeyedHostsSpec) {
    this.#spec = spec;
  }

  /** See `WorkerPool`. */
  get lives(): readonly (object | null)[] {
    return this.#places.map((place) => (place && isServing(place) ? place : null));
  }

  get sent(): SentBatches[] {
    return this.#places.flatMap((place) => place?.sent ?? []);
  }

  /** Takes the hosts that serve the stage, by their reports. @param concurrency batches at a time in one worker */
  follow(hosts: readonly ServingHost[], concurrency: number): void {
    const now = this.#spec.clock.now();
    for (const place of this.#places) {
      if (!place || place.state === 'gone') continue;
      const host = hosts.find(({ id }) => id === place.host);
      place.missedSince = host ? null : (place.missedSince ?? now);
      place.lanes = (host?.readyWorkers ?? 0) * concurrency;
      if (isGone(place, host, now)) place.state = 'gone';
    }
    for (const { id, readyWorkers, isLeaving } of hosts) {
      const isKnown = this.#places.some((place) => place?.host === id);
      if (!isKnown && !isLeaving && readyWorkers > 0) this.#open(id, readyWorkers * concurrency);
    }
  }

  /** Looks after the batches of all hosts. Those that a host which is gone has not begun come back. */
  async lookAfter(): Promise<void> {
    for (const [index, place] of this.#places.entries()) {
      if (!place || place.state === 'opening') continue;
      if (place.state === 'gone') await place.sent.takeBack();
      await place.sent.lookAfter();
      if (place.state === 'gone' && place.sent.size === 0) {
        this.#places[index] = null;
        await place.sent.forget();
      }
    }
  }

  freeWorker(room: Room, index?: number): FreeWorker<Item> | null {
    const found = [...this.#places.entries()].find(([at, place]) => {
      return (index === undefined || at === index) && place !== null && hasRoom(place, room);
    });
    if (!found) return null;
    const [at, place] = found;
    const dispatch = (batch: Batch<Item>): void => place?.sent.send(at, batch);
    return { index: at, isCurrent: true, refusalOf: null, dispatch };
  }

  #open(host: string, lanes: number): void {
    const { sent, opened } = this.#spec.connect(host);
    const place: KeyedHost = { host, sent, state: 'opening', lanes, missedSince: null };
    const free = this.#places.indexOf(null);
    this.#places[free < 0 ? this.#places.length : free] = place;
    opened.then(
      () => {
        if (place.state === 'opening') place.state = 'serving';
        this.#spec.onChange();
      },
      () => {
        place.state = 'gone';
      },
    );
  }
}

function isServing({ state, lanes, missedSince }: KeyedHost): boolean {
  return state === 'serving' && lanes > 0 && missedSince === null;
}

function isGone({ missedSince }: KeyedHost, host: ServingHost | undefined, now: number): boolean {
  return host?.isLeaving === true || (missedSince !== null && now - missedSince >= HAND_OVER_MS);
}

/** Beyond a batch for each place in a worker, another one hides the way there. */
function hasRoom(place: KeyedHost, room: Room): boolean {
  const most = typeof room === 'number' ? 2 * place.lanes : { empty: 1, place: place.lanes + 1 }[room];
  return isServing(place) && place.sent.size < most;
}
