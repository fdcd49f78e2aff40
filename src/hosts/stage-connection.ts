/** The connections of a remote stage to its broker: its queue, its registry, and the events and parts that come back. */

import { BrokerLink } from '../broker/broker-link.ts';
import { type JobEvent, JobEvents } from '../broker/job-events.ts';
import type { Clock, Timer } from '../core/clock.ts';
import type { LogRecord, RemotePlace } from '../core/model.ts';
import { BATCH_LEASES, BatchQueue } from './batch-queue.ts';
import { type PartsEvents, ReceivedParts } from './received-parts.ts';
import { RemoteRegistry } from './registry.ts';

export interface Connected {
  readonly link: BrokerLink;
  readonly queue: BatchQueue;
  readonly registry: RemoteRegistry;
  readonly events: JobEvents;
  readonly parts: ReceivedParts;
}

interface Watcher extends Pick<PartsEvents, 'onPart' | 'onMissing'> {
  readonly clock: Clock;
  onEvent(event: JobEvent): void;
  onLog(record: LogRecord): void;
}

/** Time between two looks at a broker that cannot be reached, in ms. */
const LOOK_MS = 2000;

interface QueueNames {
  /** Name of the queue on the broker. */
  readonly queue: string;
  /** Key of the stage. */
  readonly stage: string;
  /** Tells the jobs of this pool from those of others. */
  readonly session: string;
  /** Null: the connection makes it. */
  readonly registry: RemoteRegistry | null;
}

/** Connects a pool to a queue of its stage. Rejects if the packages of a broker are missing. */
export async function connect(place: RemotePlace, names: QueueNames, watcher: Watcher): Promise<Connected> {
  const { clock, onEvent, onLog } = watcher;
  const { queue, stage, session } = names;
  const link = await BrokerLink.open({ ...place, queue }, BATCH_LEASES, onLog, clock);
  const registry = names.registry ?? new RemoteRegistry(link, place, clock);
  const tell: PartsEvents['tell'] = (host, message) => void registry.send(message, host).catch(() => {});
  const parts = new ReceivedParts(link, stage, session, { ...watcher, tell });
  return { link, queue: new BatchQueue(link, session), registry, events: new JobEvents(link, onEvent), parts };
}

/** Follows the events of the queue. Until the broker can be reached, tells every two seconds why not. */
export async function follow(
  { link, events }: Connected,
  clock: Clock,
  onFault: (fault: Error | null) => void,
): Promise<void> {
  let timer: Timer | null = null;
  const look = (): void => {
    timer = clock.at(clock.now() + LOOK_MS, () => {
      onFault(link.fault);
      look();
    });
  };
  look();
  await events.start().finally(() => timer?.cancel());
}

/** Why the broker of a stage cannot be used at present. Logs when that begins, and when it ends. */
export class BrokerFault {
  readonly #log: (record: LogRecord) => void;
  #error: Error | null = null;

  constructor(log: (record: LogRecord) => void) {
    this.#log = log;
  }

  /** null: the broker can be used. */
  get error(): Error | null {
    return this.#error;
  }

  set(error: Error | null): void {
    if (error && !this.#error) this.#log({ level: 'error', message: error.message.replace('\n', ': ') });
    else if (this.#error && !error) this.#log({ level: 'info', message: 'the broker can be used again' });
    this.#error = error;
  }
}

/** The queue is last: the others use its connection. */
export async function disconnect({ events, parts, queue }: Connected): Promise<void> {
  events.close();
  parts.close();
  await queue.close();
}
