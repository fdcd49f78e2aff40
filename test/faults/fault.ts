/** The rows of the fault table, each tested with load, fault, recovery, and a check for leaks. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Load } from './load.ts';
import { assertSame, atRest, type Resources } from './resources.ts';

/** One row of the fault table. `B` is what the fault is done to. */
export interface Fault<B> {
  /** The fault, as the name of its test. */
  readonly name: string;
  /** The effect on requests. */
  readonly requests: string;
  /** How it ends without a person. */
  readonly recovery: string;
  /** Codes that requests which it concerns may get, besides `ok`. */
  readonly codes?: readonly string[];
  /** Most requests of the load that may get one of them. Default: those of one batch. */
  readonly mostFailed?: number;
  /** Whether it concerns requests that have nothing to do with the stage at fault, too. */
  readonly concernsAll?: boolean;
  /** Does it, and checks what is particular to it. Load is running. */
  inject(bed: B): Promise<void>;
}

export interface FaultGroup<F> {
  readonly title: string;
  readonly faults: readonly F[];
}

/** A running pipeline with load. */
export interface Bed {
  /** Requests that may come to the fault. */
  readonly load: Load;
  /** Requests of the same runtime that pass other stages only. */
  readonly beside: Load;
  resources(): Promise<Resources>;
  /** Ends what only waits for time to pass, such as an interval of the log. */
  skipTime?(): void;
  /** Resolves when all workers of all stages are ready. */
  ready(): Promise<unknown>;
  /** After the load has stopped: fails unless each request was counted once. */
  assertAllCounted(): Promise<void>;
}

/** Items of one batch of the stage at fault. */
export const BATCH = 4;

/** Registers the tests of one group. */
export function testFaults<B extends Bed, F extends Fault<B>>(
  group: FaultGroup<F>,
  start: (t: TestContext, fault: F) => Promise<B>,
): void {
  describe(group.title, () => {
    for (const fault of group.faults) {
      test(fault.name, async (t) => {
        const bed = await start(t, fault);
        const loads = [bed.load, bed.beside];
        await underLoad(loads, () => served(loads));
        const before = await atRest(() => bed.resources());

        await underLoad(loads, async () => {
          await served(loads);
          await fault.inject(bed);
          await served(loads);
          await bed.ready();
          await served(loads);
        });
        assertCodes(bed.load, fault.codes ?? [], fault.mostFailed ?? BATCH);
        assertCodes(bed.beside, fault.concernsAll ? (fault.codes ?? []) : [], Number.POSITIVE_INFINITY);
        await bed.assertAllCounted();
        bed.skipTime?.();
        await assertSame(() => bed.resources(), before);
      });
    }
  });
}

async function underLoad(loads: readonly Load[], work: () => Promise<void>): Promise<void> {
  for (const load of loads) load.start();
  try {
    await work();
  } finally {
    await Promise.all(loads.map((load) => load.stop()));
  }
}

async function served(loads: readonly Load[]): Promise<void> {
  await Promise.all(loads.map((load) => load.served()));
}

function assertCodes(load: Load, allowed: readonly string[], mostFailed: number): void {
  const unexpected = Object.keys(load.counts).filter((code) => code !== 'ok' && !allowed.includes(code));
  assert.deepEqual(
    unexpected,
    [],
    `besides ok only ${allowed.join(', ') || 'nothing'}: ${JSON.stringify(load.counts)}`,
  );
  assert.ok(load.failed <= mostFailed, `no more than ${mostFailed} fail: ${JSON.stringify(load.counts)}`);
}
