/** Large requests travel in slots between the server and its engine. Nothing that ends early keeps one. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../../src/core/clock.ts';
import { allowedCpus } from '../../../src/process/affinity.ts';
import { EngineClient } from '../../../src/runtime/service/engine-client.ts';
import { Planner } from '../../../src/runtime/service/planner.ts';
import { CODEC } from '../../../src/wire/codec/codec.ts';
import { outcomeOf } from '../../../src/wire/frames/failures.ts';
import { bareItem, type WireItem } from '../../../src/wire/frames/items.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, kill9, startedProcesses } from '../../fixtures/processes.ts';
import { planned } from '../../fixtures/stage-spec.ts';

const LENGTH = 150_000;
const LAUNCHER = { setpriv: true, taskset: false };

/** A stage gives back what it gets, but the first input that begins with its number: it says in a file that it has this. */
const codeIn = (folder: string, number: number): string => `
  const [{ existsSync, writeFileSync }, file] = [require('node:fs'), ${JSON.stringify(join(folder, `held ${number}`))}];
  if (input[0] !== ${number} || existsSync(file)) return input;
  writeFileSync(file, '');
  return new Promise(() => {});`;

class Bed {
  readonly client: EngineClient;
  /** The outcomes, by request. */
  readonly outcomes: Map<number, WireItem> = new Map();
  lost = 0;
  readonly #folder: string;
  readonly #routeRef: number;
  #next = 1;

  constructor(t: TestContext) {
    this.#folder = folderFor(t);
    const events = {
      ...{ onParts() {}, onTaps() {}, onRecalled() {}, onStatus() {}, onChecked() {}, onDescribed() {} },
      ...{ onChange() {}, onLog() {} },
      onOutcomes: (items: readonly WireItem[]) => {
        for (const one of items) this.outcomes.set(one.id, one);
      },
      onLost: () => {
        this.lost += 1;
      },
      complete: <Plan>(plan: Plan): Plan => plan,
    };
    const boot = {
      ...{ maxPayloadBytes: 2 ** 26, maxQueueBytes: 2 ** 28, statesFolder: '' },
      ...{ allowedCpus: allowedCpus(), launcher: LAUNCHER, strictPins: false },
      requests: { mostWaiting: 0, barred: null },
    };
    this.client = new EngineClient(boot, null, events);
    const stages = ['a', 'b'].map((id, index) =>
      planned({ id, inline: codeIn(this.#folder, index + 1), retryLost: id === 'b' }),
    );
    this.client.start();
    const plan = new Planner().compile(stages, [{ entry: 'in', stages: ['a', 'b'] }]);
    this.#routeRef = plan.routes[0]?.ref as number;
    this.client.apply(plan, new Set());
    t.after(async () => {
      await this.client.close(systemClock.now() + 2000);
      await allGone();
    });
  }

  /** Whether a worker of a stage has got a request that it does not answer. */
  isHeld(stage: number): boolean {
    return existsSync(join(this.#folder, `held ${stage}`));
  }

  get taken(): number {
    return this.client.slots.taken;
  }

  /** Sends requests whose bytes all have a value. Returns their numbers. */
  send(count: number, value: number): number[] {
    return Array.from({ length: count }, () => {
      const id = this.#next++;
      const bytes = Buffer.alloc(LENGTH, value);
      const item = bareItem(id, { codec: CODEC.bytes, bytes });
      this.client.submit({ ...item, routeRef: this.#routeRef, deadline: Number.POSITIVE_INFINITY, patient: true });
      return id;
    });
  }

  async answered(ids: readonly number[]): Promise<void> {
    await until('they are answered', () => ids.every((id) => this.outcomes.has(id)));
  }

  /** The answers are what was sent. */
  assertSame(ids: readonly number[], value: number): void {
    for (const id of ids) {
      const outcome = outcomeOf(this.outcomes.get(id) as WireItem);
      assert.ok(outcome.ok, outcome.ok ? '' : outcome.error.message);
      assert.ok(Buffer.alloc(LENGTH, value).equals(outcome.value.bytes), `request ${id}`);
    }
  }

  async assertServes(): Promise<void> {
    const ids = this.send(20, 7);
    await this.answered(ids);
    this.assertSame(ids, 7);
    assert.equal(this.taken, 0);
  }
}

/** Files of shared memory that a process has open. */
function filesOf(pid: number | string): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      const path = readlinkSync(join(folder, fd));
      return path.includes('/dev/shm/modelet-') ? path : [];
    } catch {
      // It was open to list the folder.
      return [];
    }
  });
}

const onLinux = { skip: process.platform !== 'linux' };

test('requests and answers pass by slots, and few bytes by the socket', onLinux, async (t) => {
  const bed = new Bed(t);
  await bed.assertServes();
  const { sent, received } = bed.client.process.bytes;
  assert.ok(sent < LENGTH && received < 2 * LENGTH, `${sent} bytes sent, ${received} received`);
  const files = filesOf('self').sort();
  assert.equal(files.length, 2, 'the file of requests, and that of the workers');
  // So a payload is written once and read once.
  for (const one of startedProcesses()) assert.deepEqual(filesOf(one.pid).sort(), files);
  await bed.client.close(systemClock.now() + 2000);
  assert.deepEqual(filesOf('self'), [], 'the memory goes back with the runtime');
});

test('kill -9 of the engine during large requests gives all slots back', onLinux, async (t) => {
  const bed = new Bed(t);
  await bed.assertServes();
  bed.send(30, 1);
  await until('they have slots', () => bed.taken === 30);
  const { pid } = bed.client.process;
  kill9(pid);
  await until('it is lost', () => bed.lost === 1);
  assert.equal(bed.taken, 0);
  await until('another serves', () => bed.client.process.isReady && bed.client.process.pid !== pid);
  await bed.assertServes();
});

test('kill -9 of a worker during a large request, and cancels, give their slots back', onLinux, async (t) => {
  const bed = new Bed(t);
  await bed.assertServes();
  const held = bed.send(1, 1);
  // So does the ledger with requests whose time is over.
  const cancelled = bed.send(10, 7);
  await until('they have slots', () => bed.taken === 11);
  for (const id of cancelled) bed.client.cancel(id);
  // A worker that has them in advance may read them until it answers.
  await until('the others keep their slots, and one runs', () => bed.taken < 10 && bed.isHeld(1));
  for (const { pid } of startedProcesses()) if (pid !== bed.client.process.pid) kill9(pid);
  await bed.answered(held);
  assert.equal(bed.taken, 0);
  await bed.assertServes();
  assert.deepEqual(
    cancelled.filter((id) => bed.outcomes.has(id)),
    [],
  );
});

test('a worker of a second stage that is killed gets the same bytes again', onLinux, async (t) => {
  const bed = new Bed(t);
  await bed.assertServes();
  const ids = bed.send(20, 2);
  await until('the second stage has one', () => bed.isHeld(2));
  for (const { pid } of startedProcesses()) if (pid !== bed.client.process.pid) kill9(pid);
  await bed.answered(ids);
  bed.assertSame(
    ids.filter((id) => outcomeOf(bed.outcomes.get(id) as WireItem).ok),
    2,
  );
  assert.ok(outcomeOf(bed.outcomes.get(ids[0] as number) as WireItem).ok, 'the second stage had it');
  await bed.assertServes();
});

test(
  'a cancel while a worker runs the request gives the slot back, and the next ones get their own bytes',
  onLinux,
  async (t) => {
    const bed = new Bed(t);
    await bed.assertServes();
    for (let round = 0; round < 20; round += 1) {
      const [cancelled, kept] = [bed.send(4, round + 10), bed.send(4, round + 50)];
      // In the next turns they are somewhere on their way there or back.
      for (let turn = 0; turn < round; turn += 1) await new Promise((resolve) => setImmediate(resolve));
      for (const id of cancelled) bed.client.cancel(id);
      await bed.answered(kept);
      bed.assertSame(kept, round + 50);
    }
    await until('all are back', () => bed.taken === 0);
  },
);
