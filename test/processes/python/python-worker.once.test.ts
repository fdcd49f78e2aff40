/** Workers in Python live as workers in JavaScript do: batches, pins, signals, time-outs, the log, the end. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { ModeletError } from '../../../src/core/errors.ts';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { coresOfThreads, kill9, within } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { grantedCpus, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';
import { prefetching } from '../modelets/gated.ts';
import { FAULTS, outcomes } from './python-faults.ts';

function serveSource(t: TestContext, lines: string, stage: Partial<StageSpec> = {}): Promise<TestService> {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, lines);
  return serve(t, { stages: [{ id: 'model', python, ...stage }] });
}

describe('a worker in Python', { skip: WITHOUT_PYTHON }, () => {
  test('takes batches of 1 and of 32, and keeps nothing from one to the next', async (t) => {
    const lines =
      'def predict(values, ctx):\n    return [[value, len(values), ctx.stage, ctx.worker] for value in values]';
    const service = await serveSource(t, lines, {
      predict: 'batch',
      batch: { policy: 'oldest', maxBatchSize: 32, maxWaitMs: 300 },
    });
    assert.deepEqual(await service.value(7), [7, 1, 'model', 0]);
    const numbers = Array.from({ length: 64 }, (_, n) => n);
    const answers = await Promise.all(numbers.map((n) => service.value(n)));
    assert.deepEqual(
      answers,
      numbers.map((n) => [n, 32, 'model', 0]),
    );
    const large = 'a payload that travels in a slot'.repeat(10_000);
    assert.deepEqual(await service.value(large), [large, 1, 'model', 0]);
    await until('the four calls are reported', () => service.stage('model').reading.runs === 4);
  });

  test('carries 8 MB both ways, of several requests at a time', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo', python: 'echo' }] });
    const large = Buffer.alloc(8 << 20, 'abcdefg');
    const values = [large, { nested: [large] }, new Float64Array(1 << 20).fill(0.1), large];
    assert.deepEqual(await Promise.all(values.map((value) => service.value(value))), values);
  });

  const deaths: Readonly<Record<string, RegExp>> = {
    kill: /was killed by SIGKILL/,
    crash: /was killed by SIGSEGV: Fatal Python error: Segmentation fault/,
    exit: /exited with code 1: out of weights/,
  };
  for (const [fault, cause] of Object.entries(deaths)) {
    test(`whose modelet comes to "${fault}" loses its running items, and another takes its place`, async (t) => {
      const service = await serve(t, { stages: [FAULTS] });
      const { model: [pid] = [] } = await service.ready();
      const lost = await outcomes(service, ['', fault, '']);
      for (const outcome of lost) {
        assert.match(outcome, /^worker_lost/);
        assert.match(outcome, cause);
      }
      const others = await Promise.all([0, 1, 2].map((n) => service.value<{ pid: number }>({ fault: '', n })));
      assert.ok(others.every((other) => other.pid !== pid));
    });
  }

  test('that hangs is killed at runTimeoutMs, and one killed from outside is replaced', async (t) => {
    const service = await serve(t, { stages: [{ ...FAULTS, batch: { maxBatchSize: 1 }, runTimeoutMs: 1000 }] });
    const { model: [pid = 0] = [] } = await service.ready();
    assert.match((await outcomes(service, ['hang']))[0] ?? '', /^deadline_exceeded: .*ran longer than 1000 ms/);
    assert.equal(isAlive(pid), false);
    const another = (than: number): Promise<number> =>
      until('another is ready', () => {
        const [{ pid, state } = { pid: null, state: 'dead' }] = service.stage('model').workers;
        return state === 'ready' && pid !== than ? pid : null;
      });
    const next = await another(pid);
    kill9(next);
    await another(next);
    assert.deepEqual(await outcomes(service, ['']), ['ok']);
  });

  test('runs on its cores with all its threads, and with the variables that follow from them', async (t) => {
    const [first = 0] = await grantedCpus();
    const lines = `
import os, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
def predict(_, ctx):
    return [ctx.cpus, os.environ["OMP_NUM_THREADS"], os.environ["MODEL"]]`;
    const service = await serveSource(t, lines, { workers: [[first]], env: { MODEL: 'of mine' } });
    assert.deepEqual(await service.value(null), [[first], '1', 'of mine']);
    await service.ready();
    const threads = coresOfThreads(service.pids('model')[0] as number);
    assert.equal(threads.length, 2);
    for (const thread of threads) assert.deepEqual(thread, [first]);
  });

  test('writes to the log line by line: prints, log calls and bytes that are not text', async (t) => {
    const lines = `
import os, sys
def predict(_, ctx):
    print("first line\\nsecond line \\u00e9 \\ud800")
    print("a complaint", file=sys.stderr)
    sys.stdout.write("in two ")
    sys.stdout.write("pieces\\n")
    ctx.log.info({"answer": 42})
    ctx.log.error("an error")
    return 1`;
    const service = await serveSource(t, lines);
    await service.ready();
    const from = service.logs.length;
    await service.value(1);
    const heard = await until('all is heard', () => service.logs.length >= from + 6 && service.logs.slice(from));
    for (const { stage, worker } of heard) assert.deepEqual([stage, worker], ['model', 0]);
    assert.deepEqual(heard.map(({ level, message }) => `${level}: ${message}`).toSorted(), [
      'error: an error',
      'info: a complaint',
      'info: first line',
      'info: in two pieces',
      'info: second line \u00e9 \\ud800',
      "info: {'answer': 42}",
    ]);
  });

  test('finishes its batches, runs teardown once, and leaves no threads or children', async (t) => {
    const folder = folderFor(t);
    const lines = `
import atexit, os, subprocess, threading, time
class Model:
    def __init__(self, init):
        self.folder = init["folder"]
    def setup(self):
        subprocess.Popen(["sleep", "600"])
        threading.Thread(target=time.sleep, args=(600,)).start()
        atexit.register(lambda: self.note("exit"))
    def predict(self, value):
        self.note("calls")
        while not os.path.exists(self.folder + "/open"):
            time.sleep(0.002)
        return value
    def teardown(self):
        self.note("teardown")
    def note(self, what):
        with open(self.folder + "/" + what, "a") as file:
            file.write("x")`;
    const service = await serveSource(t, lines, { init: { folder } });
    await service.ready();
    const held = service.ask('held');
    await until('it runs', () => existsSync(join(folder, 'calls')));
    const closed = service.service.close(true);
    writeFileSync(join(folder, 'open'), '');
    assert.equal((await held.answer).value, 'held');
    await within(closed, 'it closes');
    const noted = ['teardown', 'exit'].map((what) => readFileSync(join(folder, what), 'utf8'));
    assert.deepEqual(noted, ['x', 'x']);
  });

  test('ignores the signals that Ctrl-C and service managers send to the group', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo', python: 'echo' }] });
    const { echo: [pid = 0] = [] } = await service.ready();
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.kill(pid, signal);
    assert.equal(await service.value(1), 1);
    assert.deepEqual(service.pids('echo'), [pid]);
  });

  test('does not run items that were cancelled or expired while they waited in it', async (t) => {
    const folder = folderFor(t);
    const lines = `
import os, time
def predict(value, ctx):
    with open(${JSON.stringify(join(folder, 'calls'))}, "a") as file:
        file.write(value + " ")
    while value == "held" and not os.path.exists(${JSON.stringify(join(folder, 'open'))}):
        time.sleep(0.002)
    return value`;
    const service = await serveSource(t, lines);
    await service.ready();
    const before = 1 + (await prefetching(service, 'model'));
    const held = service.ask('held');
    await until('it is held', () => readFileSync(join(folder, 'calls'), 'utf8').endsWith('held '));
    const ahead = service.ask('cancelled');
    await until('one was sent ahead', () => service.stage('model').items > before);
    const late = service.ask('late', { timeoutMs: 100 });
    service.service.desk.abandon(ahead.id, new ModeletError('cancelled', 'the caller went away'));
    assert.equal((await ahead.answer).code, 'cancelled');
    assert.equal((await late.answer).code, 'deadline_exceeded');
    writeFileSync(join(folder, 'open'), '');
    assert.equal((await held.answer).code, 'ok');
    assert.equal(await service.value('last'), 'last');
    assert.match(readFileSync(join(folder, 'calls'), 'utf8'), /held last $/);
  });

  test('works in a route with JavaScript, in both orders', async (t) => {
    const python = join(folderFor(t), 'middle.py');
    writeFileSync(
      python,
      'def predict(value, ctx):\n    return {**value, "seen": [float("nan"), value["bytes"], 2**70]}',
    );
    const service = await serve(t, {
      stages: [
        { id: 'before', inline: 'return { bytes: Buffer.from([1, 255]), at: new Date(5) };' },
        { id: 'middle', python },
        {
          id: 'after',
          inline: 'return { ...input, kinds: [Buffer.isBuffer(input.bytes), input.at instanceof Date] };',
        },
      ],
    });
    const bytes = Buffer.from([1, 255]);
    const seen = [Number.NaN, bytes, 2n ** 70n];
    assert.deepEqual(await service.value(null), { bytes, at: new Date(5), seen, kinds: [true, true] });
  });

  test('reports its use of memory and CPU', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo', python: 'echo' }] });
    await service.ready();
    const worker = await until('it is told', () => {
      const [first] = service.stage('echo').workers;
      return first?.rssBytes ? first : null;
    });
    assert.ok((worker.rssBytes as number) > 4 << 20 && (worker.cpuMs as number) > 0, JSON.stringify(worker));
  });
});
