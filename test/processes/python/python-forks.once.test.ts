/** Modelets in Python that fork: their children end, do not answer, and keep nothing of the worker. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, startedProcesses, within } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** Today's default in Python 3.9 to 3.13; 3.14 forks no more by itself. */
const MP = 'import multiprocessing, os, signal, sys, time\nmp = multiprocessing.get_context("fork")\n';

async function serveLines(t: TestContext, lines: string, stage: Partial<StageSpec> = {}): Promise<TestService> {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, `${MP}${lines}`);
  const service = await serve(t, { stages: [{ id: 'model', python, ...stage }] });
  await service.ready();
  return service;
}

/** Waits until the worker has no children left. */
async function childless(service: TestService): Promise<void> {
  const [pid] = service.pids('model');
  await until('the children have ended', () =>
    startedProcesses().every((found) => found.pid === pid || !found.command.includes('main.py')),
  );
}

function log(service: TestService): string {
  return service.logs.map(({ message }) => message).join('\n');
}

describe('a modelet in Python', { skip: WITHOUT_PYTHON }, () => {
  test('makes a pool in each of many calls', async (t) => {
    const service = await serveLines(
      t,
      `
def square(x): return x * x
def predict(values):
    with mp.Pool(2) as pool:
        return sum(pool.map(square, values))`,
    );
    const pids = service.pids('model');
    for (let call = 0; call < 40; call += 1) {
      assert.equal(await within(service.value<number>([1, 2, call]), `call ${call}`), 5 + call * call);
    }
    assert.deepEqual(service.pids('model'), pids);
    await childless(service);
  });

  test('leaves a pool that still computes, and ends processes that sleep', async (t) => {
    const service = await serveLines(
      t,
      `
def work(x):
    time.sleep(0 if x == 1 else 600)
    return x
def predict(values):
    with mp.Pool(2) as pool:
        first = next(pool.imap_unordered(work, values))
    sleeper = mp.Process(target=time.sleep, args=(600,))
    sleeper.start()
    sleeper.terminate()
    sleeper.join()
    return [first, sleeper.exitcode]`,
    );
    for (let call = 0; call < 5; call += 1)
      assert.deepEqual(await within(service.value([1, 2]), 'it answers'), [1, -15]);
    await childless(service);
  });

  test('ends by itself with the pool and the executor that its setup has made', async (t) => {
    const ended = join(folderFor(t), 'ended');
    const service = await serveLines(
      t,
      `
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.util import Finalize
def begin(): Finalize(None, open, (${JSON.stringify(ended)}, "w"), exitpriority=1)
def square(x): return x * x
class Model:
    def setup(self):
        self.pool = mp.Pool(2)
        self.executor = ProcessPoolExecutor(2, mp_context=mp, initializer=begin)
    def predict(self, values):
        return [sum(self.pool.map(square, values)), sum(self.executor.map(square, values))]`,
    );
    assert.deepEqual(await service.value([1, 2, 3]), [14, 14]);
    await within(service.service.close(true, 60_000), 'it closes');
    // Only a child that its executor has ended runs this, and none that was killed with the worker.
    assert.ok(existsSync(ended), log(service));
    await allGone();
  });

  test('answers once where it forks, whatever the child does', async (t) => {
    const service = await serveLines(
      t,
      `
def predict(what):
    pid = os.fork()
    if pid == 0:
        if what == "raise": raise RuntimeError("the child goes on")
        if what == "exit": sys.exit("the child has enough")
        if what == "kill": os.kill(os.getpid(), signal.SIGTERM)
        return "child"
    _, status = os.waitpid(pid, 0)
    return [what, os.waitstatus_to_exitcode(status)]`,
    );
    const pids = service.pids('model');
    const codes = { raise: 1, exit: 1, kill: -15, return: 0 };
    for (const [what, code] of Object.entries(codes)) {
      assert.deepEqual(await within(service.value(what), what), [what, code]);
    }
    assert.deepEqual(service.pids('model'), pids);
    await until('the log has what the children said', () =>
      ['the child goes on', 'the child has enough'].every((words) => log(service).includes(words)),
    );
    await childless(service);
  });

  test('forks in a batch, in a generator and in async code without a second answer', async (t) => {
    const generator = await serveLines(
      t,
      `
def predict(value):
    if os.fork() == 0: yield "child"
    else: os.wait()
    yield value`,
    );
    for (const value of [1, 2]) assert.deepEqual(await generator.value(value), [value]);
    const batch = await serveLines(
      t,
      `
def predict(values):
    if os.fork() == 0: return ["child"] * len(values)
    os.wait()
    return values`,
      { predict: 'batch', batch: { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 5000 } },
    );
    assert.deepEqual(await Promise.all([1, 2, 3].map((value) => batch.value(value))), [1, 2, 3]);
    const calls = await serveLines(
      t,
      `
import asyncio
async def predict(value):
    if os.fork() == 0:
        await asyncio.sleep(0.01)
        return "child"
    os.wait()
    return value`,
      { concurrency: 4 },
    );
    assert.deepEqual(await Promise.all([1, 2, 3].map((value) => calls.value(value))), [1, 2, 3]);
  });

  test('logs and counts in its children, where nothing of the worker is locked or written', async (t) => {
    const service = await serveLines(
      t,
      `
import threading
class Model:
    def __init__(self, init, ctx):
        self.ctx = ctx
        self.done = ctx.metrics.counter("done")
    def setup(self):
        def chatter():
            while True: self.done.inc()
        threading.Thread(target=chatter, daemon=True).start()
    def work(self):
        self.ctx.log.info("words of a child")
        self.done.inc()
    def predict(self, value):
        children = [mp.Process(target=self.work) for _ in range(4)]
        for child in children: child.start()
        for child in children: child.join()
        return [child.exitcode for child in children]`,
    );
    for (let call = 0; call < 4; call += 1)
      assert.deepEqual(await within(service.value(call), 'it answers'), [0, 0, 0, 0]);
    await until('the log has it', () => log(service).includes('words of a child'));
  });

  test('has queues and processes as a data loader has', async (t) => {
    const service = await serveLines(
      t,
      `
def work(given, done):
    for x in iter(given.get, None): done.put(x * x)
def predict(values):
    given, done = mp.Queue(), mp.Queue()
    workers = [mp.Process(target=work, args=(given, done), daemon=True) for _ in range(2)]
    for worker in workers: worker.start()
    for value in values: given.put(value)
    total = sum(done.get() for _ in values)
    for _ in workers: given.put(None)
    for worker in workers: worker.join()
    return [total, [worker.exitcode for worker in workers]]`,
    );
    for (let call = 0; call < 5; call += 1) {
      assert.deepEqual(await within(service.value([1, 2, 3]), 'it answers'), [14, [0, 0]]);
    }
  });
});
