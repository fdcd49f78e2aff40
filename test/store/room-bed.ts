/** A durable gate's waiting room without a flow: a real gate, a real queue, a clock that the test moves. */
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { GateConfig } from '../../src/config/compile-gate.ts';
import type { ModeletError } from '../../src/core/errors.ts';
import { Gate } from '../../src/gate/gate.ts';
import type { Lease } from '../../src/gate/leases.ts';
import { DurableRoom } from '../../src/gate/node-red/durable/durable-room.ts';
import type { RequestEnd } from '../../src/gate/node-red/message-leases.ts';
import type { BudgetSource } from '../../src/gate/source.ts';
import { constantSource } from '../../src/gate/sources/create.ts';
import { SqliteQueue } from '../../src/gate/store/process/sqlite-queue.ts';
import type { Claim, QueueItem, WorkQueue } from '../../src/gate/store/work-queue.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { settings } from '../gate/stand-in.ts';
import { item, local, memoryFolderFor } from './bed.ts';

const WALL = 1_700_000_000_000;
const DONE: RequestEnd = { end: { kind: 'done' } };

/** Microtasks and turns of the loop that a step may take: nothing here waits for anything else. */
const TURNS = 40;

export class RoomBed {
  readonly clock: FakeClock = new FakeClock();
  readonly gate: Gate;
  readonly room: DurableRoom;
  readonly queue: WorkQueue;
  readonly source: BudgetSource = constantSource(1, this.clock);
  readonly admitted: { readonly claim: Claim; readonly lease: Lease }[] = [];
  readonly refused: { readonly id: string; readonly code: string }[] = [];
  readonly troubles: string[] = [];
  /** The error of the queue; null while it works. */
  failing: Error | null = null;
  /** Answers to claims come after it. */
  answering: Promise<void> = Promise.resolve();
  /** Called before the queue claims. */
  beforeClaim: () => void = () => {};
  readonly config: GateConfig;

  constructor(t: Pick<TestContext, 'after'>, change: Record<string, unknown> = {}) {
    this.config = settings({ store: 'durable', maxSys: '2', maxAttempts: 2, ...change });
    const spec = { file: join(memoryFolderFor(t), 'queue.sqlite'), session: 'test', limits: this.config };
    const store = new SqliteQueue(spec, { now: () => this.clock.now(), wall: () => this.wall });
    t.after(() => store.close());
    this.queue = this.#fallible(local(store));
    this.gate = new Gate({
      id: 'gate',
      name: 'gate',
      config: this.config,
      source: this.source,
      clock: this.clock,
      ready: () => 1,
      onChange: () => {},
    });
    this.room = new DurableRoom({
      gate: this.gate,
      queue: this.queue,
      config: this.config,
      maxBytes: 10_000,
      clock: this.clock,
      outlet: {
        costOf: ({ payload }) => payload.bytes.byteLength,
        admit: (claim, lease) => this.admitted.push({ claim, lease }),
        refuse: ({ id }, { code }: ModeletError) => this.refused.push({ id, code }),
        onChange: () => {},
        onTrouble: ({ message }) => this.troubles.push(message),
      },
    });
  }

  get wall(): number {
    return WALL + this.clock.now();
  }

  get ids(): string[] {
    return this.admitted.map(({ claim }) => claim.id);
  }

  async store(...items: readonly (string | QueueItem)[]): Promise<void> {
    const all = items.map((each) => (typeof each === 'string' ? item(each) : each));
    await Promise.all(all.map((each) => this.room.store(each)));
    await this.settled();
  }

  /** The latest attempt at an item ends. */
  async end(id: string, how: RequestEnd = DONE): Promise<void> {
    const found = this.admitted.findLast(({ claim }) => claim.id === id);
    if (!found) throw new Error(`${id} was not admitted`);
    this.room.settle(found.lease.id, how);
    await this.settled();
  }

  async advance(ms: number): Promise<void> {
    // In steps: what comes due may lead to something that comes due.
    for (let left = ms; left > 0; left -= 100) {
      this.clock.advance(Math.min(100, left));
      await this.settled();
    }
  }

  async settled(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn += 1) await setImmediate();
  }

  async stateOf(id: string): Promise<string | undefined> {
    return (await this.queue.result(id))?.state;
  }

  #fallible(queue: WorkQueue): WorkQueue {
    return new Proxy(queue, {
      get: (target, name: keyof WorkQueue) => {
        const call = target[name] as (...args: unknown[]) => Promise<unknown>;
        // The file stays open until the end of the test, which looks at what a closed room leaves in it.
        if (name === 'close') return () => Promise.resolve();
        return (...args: unknown[]) => {
          if (name === 'claim') this.beforeClaim();
          if (this.failing) return Promise.reject(this.failing);
          const answer = call(...args);
          return name === 'claim' ? this.answering.then(() => answer) : answer;
        };
      },
    });
  }
}
