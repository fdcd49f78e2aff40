/** Queues to try, on clocks that stand still, and what goes through them. */
import { existsSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { LogRecord } from '../../src/core/model.ts';
import { QueueClient, type QueueClientSpec } from '../../src/gate/store/client/queue-client.ts';
import {
  type HeldClaim,
  type QueueItem,
  type QueueLimits,
  type QueueTime,
  type WorkQueue,
  type WorkStore,
  whyNoSqlite,
} from '../../src/gate/store/work-queue.ts';
import { allowedCpus } from '../../src/process/affinity.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { folderFor } from '../fixtures/folder.ts';

/** Why there is no embedded queue here, for tests that need one; false where there is. */
export const NO_SQLITE: string | false = whyNoSqlite() ?? false;

const MEMORY = '/dev/shm';

export const LIMITS: QueueLimits = { capacity: 10_000, maxAttempts: 3, resultTtlMs: 60_000 };

/** Lease of the claims of a test, in ms: longer than any test takes. */
export const LEASE_MS = 60_000;

/** Both clocks go on by hand; the time of day jumps where a test says so. */
export class TestTime implements QueueTime {
  #now = 1000;
  #wall = 1_700_000_000_000;

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#wall;
  }

  advance(ms: number): void {
    this.#now += ms;
    this.#wall += ms;
  }

  /** Sets the clock. */
  jump(ms: number): void {
    this.#wall += ms;
  }
}

/** The program of a queue's process, run without the process. */
export function local(store: WorkStore): WorkQueue {
  return new Proxy(store, {
    get(target, name: keyof WorkStore) {
      const call = target[name] as (...args: unknown[]) => unknown;
      return async (...args: unknown[]): Promise<unknown> => call.apply(target, args);
    },
  }) as unknown as WorkQueue;
}

/** A folder in memory, where the system has one: a queue syncs its file in each call, which costs most of its time. */
export function memoryFolderFor(t: Pick<TestContext, 'after'>): string {
  return folderFor(t, existsSync(MEMORY) ? MEMORY : undefined);
}

export function item(id: string, more: Partial<QueueItem> = {}): QueueItem {
  return { id, payload: { codec: CODEC.bytes, bytes: Buffer.from(`of ${id}`) }, priority: 0, deadline: null, ...more };
}

export function items(count: number, prefix = 'item'): QueueItem[] {
  return Array.from({ length: count }, (_, index) => item(`${prefix}-${index}`));
}

let tokens = 0;

/** A claim with a unique token. */
export async function claim(
  queue: WorkQueue,
  max: number,
  leaseMs = LEASE_MS,
): Promise<Awaited<ReturnType<WorkQueue['claim']>>> {
  tokens += 1;
  return queue.claim({ max, leaseMs, token: `token-${tokens}` });
}

export function idsOf(held: readonly HeldClaim[]): string[] {
  return held.map(({ id }) => id);
}

export function endAll(queue: WorkQueue, held: readonly HeldClaim[]): Promise<boolean[]> {
  return queue.ack(held.map(({ id, token }) => ({ id, token, ok: true, result: null })));
}

/** A queue in a separate process, on a file or on the server of a broker. */
export function clientOf(
  t: Pick<TestContext, 'after'>,
  place: Pick<QueueClientSpec, 'file' | 'broker'>,
  logs: LogRecord[] = [],
): QueueClient {
  const queue = new QueueClient({
    ...place,
    limits: LIMITS,
    launcher: { setpriv: false, taskset: false },
    allowedCpus: allowedCpus(),
    startAfter: Promise.resolve(),
    onChange: () => {},
    onLog: (record) => logs.push(record),
  });
  t.after(() => queue.close());
  return queue;
}
