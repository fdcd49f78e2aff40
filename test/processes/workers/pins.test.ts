/** Seed 000's example with its CPU pins, proven by what the kernel says of every thread. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { RuntimeConfig } from '../../../src/config/compile.ts';
import type { Pin } from '../../../src/core/model.ts';
import { usableThreads } from '../../../src/process/container-limits.ts';
import { until } from '../../fixtures/polling.ts';
import { coresOfThreads, kill9, startedProcesses } from '../../fixtures/processes.ts';
import { grantedCpus, serve, type TestService } from '../../fixtures/service.ts';

const granted = await grantedCpus();
const first = granted[0] as number;
const second = granted[1] ?? first;
/** A core that no machine of ours has. */
const MISSING = 4000;

function onlyCores(pid: number, cores: readonly number[], who: string): void {
  const threads = coresOfThreads(pid);
  assert.ok(threads.length > 1, `${who}: a Node.js process has threads`);
  for (const thread of threads) assert.deepEqual(thread, [...cores], who);
}

function example(t: TestContext, doubles: number | readonly Pin[], config: Partial<RuntimeConfig> = {}) {
  return serve(t, {
    config,
    stages: [
      { id: 'double', file: 'double', workers: doubles },
      { id: 'add three', file: 'add-three', batch: { maxBatchSize: 100 } },
    ],
  });
}

interface Result {
  readonly value: number;
  readonly pid: number;
  readonly cpus: number[] | null;
  readonly batchSize: number;
}

async function doubleAndAddThree(service: TestService): Promise<Result[]> {
  const numbers = Array.from({ length: 100 }, (_, index) => index);
  const results = await Promise.all(numbers.map((x) => service.value<Result>(x)));
  assert.deepEqual(
    results.map(({ value }) => value),
    numbers.map((x) => x * 2 + 3),
  );
  return results;
}

describe("seed 000's example: double x, then add three", () => {
  test('each worker runs on its own core with all its threads, and an unpinned one on all cores', async (t) => {
    const service = await example(t, [[first], [second]], { engineCpus: [second] });
    const pids = await service.ready();
    const results = await doubleAndAddThree(service);

    const [one, two] = pids['double'] as [number, number];
    onlyCores(one, [first], 'worker 0');
    onlyCores(two, [second], 'worker 1');
    onlyCores(service.enginePid, [second], 'engine');
    onlyCores((pids['add three'] as number[])[0] as number, granted, 'the unpinned worker of a pinned engine');
    for (const { pid, cpus } of results) assert.deepEqual(cpus, pid === one ? [first] : [second]);
    assert.deepEqual(new Set(results.map(({ pid }) => pid)), new Set([one, two]), 'both workers took part');
    const { workers, pinWarnings } = service.stage('double');
    assert.deepEqual(
      workers.map(({ cpus }) => cpus),
      [[first], [second]],
    );
    assert.deepEqual(pinWarnings, []);
    assert.deepEqual(service.service.snapshot().pinWarnings, []);
  });

  test('a replacement worker has the pin of the old one', async (t) => {
    const service = await example(t, [[second]]);
    const [killed] = (await service.ready())['double'] as [number];
    kill9(killed);
    const pid = await until('a new worker', () => service.pids('double').find((other) => other && other !== killed));
    await service.ready();
    onlyCores(pid, [second], 'the new worker');
  });

  test('a worker with a pin of several cores runs on these cores only', async (t) => {
    const service = await example(t, [[first, second]]);
    const [pid] = (await service.ready())['double'] as [number];
    onlyCores(pid, [...new Set([first, second])], 'worker 0');
  });

  test('numeric libraries get as many threads as there are pinned cores, unless the user says otherwise', async (t) => {
    const inline = 'return [env.get("OMP_NUM_THREADS"), env.get("MKL_NUM_THREADS"), env.get("OPENBLAS_NUM_THREADS")]';
    const env = { MKL_NUM_THREADS: '7' };
    const service = await serve(t, {
      stages: [
        { id: 'pinned', inline, workers: [[first]], env },
        { id: 'free', inline },
        { id: 'unpinnable', inline, workers: [[MISSING]] },
      ],
      routes: { pinned: ['pinned'], free: ['free'], unpinnable: ['unpinnable'] },
    });
    assert.deepEqual(await service.value(0, { entry: 'pinned' }), ['1', '7', '1']);
    // A quota of less than all cores limits these threads as well.
    const count = usableThreads() < granted.length ? String(usableThreads()) : undefined;
    assert.deepEqual(await service.value(0, { entry: 'free' }), [count, count, count]);
    assert.deepEqual(await service.value(0, { entry: 'unpinnable' }), [count, count, count]);
  });
});

describe("this process's own pin", () => {
  test('applies to all its threads, is not inherited, and ends on close', async (t) => {
    const service = await example(t, 1, { serverCpus: [first] });
    await service.ready();
    await until('it is pinned', () => coresOfThreads(process.pid).every((cores) => cores.join() === String(first)));
    await until('the program that pinned it has ended', () => startedProcesses().length === 3);
    onlyCores(service.enginePid, granted, 'engine');
    for (const { pid, command } of startedProcesses()) onlyCores(pid, granted, command);
    await service.end();
    onlyCores(process.pid, granted, 'this process after close');
  });

  test('ends as well when the service closes at once', async (t) => {
    const service = await example(t, 1, { serverCpus: [first] });
    await service.end();
    onlyCores(process.pid, granted, 'this process');
    // A call that was in progress at close must not take effect after it.
    await (await example(t, 1)).ready();
    onlyCores(process.pid, granted, 'this process later');
  });
});

describe('a pin to a missing core', () => {
  test('leaves that worker unpinned, with a warning, and the others unchanged', async (t) => {
    const service = await example(t, [[first], [MISSING], [first, MISSING]], { engineCpus: [MISSING] });
    const pids = (await service.ready())['double'] as [number, number, number];
    const results = await doubleAndAddThree(service);

    onlyCores(pids[0], [first], 'worker 0');
    onlyCores(pids[1], granted, 'worker 1');
    onlyCores(pids[2], granted, 'worker 2');
    onlyCores(service.enginePid, granted, 'engine');
    for (const { pid, cpus } of results) assert.deepEqual(cpus, pid === pids[0] ? [first] : null, 'ctx.cpus');
    const { pinWarnings, workers } = service.stage('double');
    assert.deepEqual(
      workers.map(({ cpus }) => cpus),
      [[first], null, null],
    );
    assert.equal(pinWarnings.length, 2);
    assert.match(pinWarnings[0] as string, /worker 1.*core 4000.*unpinned/);
    assert.match(pinWarnings[1] as string, /worker 2.*core 4000.*unpinned/);
    assert.match(service.service.snapshot().pinWarnings.join('\n'), /engine.*core 4000/);
  });

  test('with strictPins prevents the start of the stage, and the error names the core', async (t) => {
    const service = await example(t, [[first], [MISSING]], { strictPins: true });
    const { code, error } = await service.answer(1);
    assert.equal(code, 'stage_unavailable');
    assert.match(error?.message ?? '', /stage double .*worker 1.*core 4000/);
    assert.doesNotMatch(error?.message ?? '', /unpinned/);

    const stage = await until('the stage is shown', () => {
      const shown = service.stage('double');
      return shown.workers.length > 0 ? shown : null;
    });
    assert.equal(stage.ready, 0);
    for (const { state, error: cause, pid } of stage.workers) {
      assert.equal(state, 'error');
      assert.match(cause ?? '', /core 4000/);
      assert.equal(pid, null);
    }
    assert.match(service.logs.map(({ message }) => message).join('\n'), /core 4000/);
  });

  test('with strictPins changes nothing if the cores exist', async (t) => {
    const service = await example(t, [[first], [second]], { strictPins: true, engineCpus: [first] });
    await doubleAndAddThree(service);
  });

  test('with strictPins in the engine or in this process refuses every request, and the error names the core', async (t) => {
    for (const property of ['engineCpus', 'serverCpus']) {
      const service = await example(t, 1, { strictPins: true, [property]: [MISSING] });
      assert.throws(() => service.ask(1), { code: 'config_invalid', message: /core 4000/ });
      assert.match(String(service.service.snapshot().refuses), /core 4000/);
      await service.end();
    }
  });

  test('is only a warning on a machine without pinning', async (t) => {
    const service = await serve(t, {
      without: ['taskset'],
      stages: [{ id: 'double', file: 'double', workers: [[first]] }],
    });
    const { pid, cpus } = await service.value<Result>(1);
    onlyCores(pid, granted, 'the worker');
    assert.equal(cpus, null);
    await service.ready();
    assert.deepEqual(service.stage('double').workers[0]?.cpus, null);
    assert.match(service.stage('double').pinWarnings.join('\n'), /worker 0: processes cannot be pinned .*unpinned/);
  });
});
