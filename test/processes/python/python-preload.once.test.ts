/** Workers in Python that are forked from a template share what it has loaded, and live and die as other workers do. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { coresOfThreads, kill9, startedProcesses, within } from '../../fixtures/processes.ts';
import { pythonWith, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { grantedCpus, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const [NUMPY, WITHOUT_NUMPY] = pythonWith('numpy');

const MB = 1024 * 1024;
const ARRAY_MB = 128;

const SHARED = `
import os, time
class Model:
    loads = 0
    @classmethod
    def preload(cls, init):
        print("loads")
        cls.loads += 1
        cls.text = init["text"] * 3
    def setup(self):
        self.pid = os.getpid()
    def predict(self, value):
        if value == "die": os._exit(7)
        if value == "hold": time.sleep(600)
        return [self.text, self.loads, self.pid, os.getppid()]`;

/** A result of that model. */
type Told = readonly [text: string, loads: number, pid: number, template: number];

async function serveModel(
  t: TestContext,
  code: string = SHARED,
  stage: Partial<StageSpec> = {},
): Promise<TestService & { readonly file: string }> {
  const file = join(folderFor(t), 'model.py');
  writeFileSync(file, code);
  const spec: StageSpec = { id: 'model', python: file, preload: true, init: { text: 'a' }, ...stage };
  return Object.assign(await serve(t, { stages: [spec] }), { file });
}

/** The processes of Python that are no workers. */
function templates(service: TestService): number[] {
  const workers = service.pids('model');
  const found = startedProcesses().filter(({ command }) => command.endsWith('main.py template'));
  return found.map(({ pid }) => pid).filter((pid) => !workers.includes(pid));
}

function template(service: TestService): number {
  const [pid, ...others] = templates(service);
  assert.ok(pid);
  assert.deepEqual(others, []);
  return pid;
}

function pssMb(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1]) / 1024;
}

function log(service: TestService): string {
  return service.logs.map(({ message }) => message).join('\n');
}

describe('workers that share what a template has loaded', { skip: WITHOUT_PYTHON }, () => {
  test('have one copy of the weights between four of them', { skip: WITHOUT_NUMPY }, async (t) => {
    const code = `
import numpy
class Model:
    @classmethod
    def preload(cls):
        cls.weights = numpy.ones(${(ARRAY_MB * MB) / 8})
        cls.weights[:1000] @ cls.weights[:1000]
    def predict(self, factor):
        return float(self.weights.sum()) * factor`;
    const service = await serveModel(t, code, { workers: 4, interpreter: NUMPY });
    const { model: pids = [] } = await service.ready();
    assert.equal(new Set(pids).size, 4);
    const sums = await Promise.all(Array.from({ length: 20 }, (_, n) => service.value(n)));
    assert.deepEqual(
      sums,
      sums.map((_, n) => ((ARRAY_MB * MB) / 8) * n),
    );
    const all = [template(service), ...pids].map(pssMb);
    const sum = all.reduce((total, mb) => total + mb, 0);
    t.diagnostic(`PSS of the template and the workers: ${all.map(Math.round).join(', ')} MB`);
    assert.ok(sum > ARRAY_MB && sum < 1.8 * ARRAY_MB, `${sum} MB for ${ARRAY_MB} MB of weights`);
  });

  test('are separate processes: group, pin, environment, rank of the memory killer', async (t) => {
    const cpus = (await grantedCpus()).slice(0, 1);
    const code = `
import os
def preload(): os.environ["OF_THE_TEMPLATE"] = "yes"
def predict(name): return [os.environ.get(name), os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()]`;
    const service = await serveModel(t, code, { workers: [cpus, cpus], env: { COLOUR: 'blue' } });
    const { model: pids = [] } = await service.ready();
    assert.deepEqual(await service.value('COLOUR'), ['blue', true, true]);
    assert.deepEqual(await service.value('OF_THE_TEMPLATE'), [null, true, true]);
    const score = (pid: number): number => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
    for (const pid of pids) {
      assert.deepEqual(coresOfThreads(pid), [cpus]);
      assert.equal(score(pid), score(service.enginePid) + 500);
    }
    assert.equal(score(template(service)), score(service.enginePid));
  });

  test('take and give large payloads', async (t) => {
    const service = await serveModel(t, 'def preload(): pass\ndef predict(value): return value', { workers: 2 });
    const bytes = Buffer.alloc(2 * MB, 7);
    for (let call = 0; call < 4; call += 1) assert.deepEqual(await service.value(bytes), bytes);
  });

  test('run what they print, log and raise to the same places as others', async (t) => {
    const code = `
import sys
class Model:
    @classmethod
    def preload(cls): print("words of the template")
    def __init__(self, init, ctx): self.ctx = ctx
    def setup(self): print("words of a worker", file=sys.stderr)
    def predict(self, value):
        self.ctx.log.info("logged")
        raise ValueError("no")`;
    const service = await serveModel(t, code);
    const { error } = await service.answer(1);
    assert.match(error?.message ?? '', /no/);
    for (const words of ['words of the template', 'words of a worker', 'logged'])
      await until(words, () => log(service).includes(words));
  });

  test('that are killed, or end, fail their item alone and come from the same template', async (t) => {
    const service = await serveModel(t, SHARED, { workers: 2 });
    await service.ready();
    const parent = template(service);
    const held = service.ask('hold');
    await until('a worker runs it', () => service.stage('model').workers.some(({ busy }) => busy));
    const victim = service.stage('model').workers.find(({ busy }) => busy)?.pid;
    kill9(victim);
    const { code, error } = await held.answer;
    assert.equal(code, 'worker_lost');
    assert.match(error?.message ?? '', /killed by SIGKILL/);
    const { error: ended } = await service.answer('die');
    assert.match(ended?.message ?? '', /exited with code 7/);
    await until('both serve again', () => {
      const { ready, reading } = service.stage('model');
      return ready === 2 && reading.restarts.died === 2;
    });
    assert.ok(!service.pids('model').includes(victim as number));
    const [text, loads, , ppid] = await service.value<Told>('x');
    assert.deepEqual([text, loads, ppid], ['aaa', 1, parent]);
    assert.equal(log(service).match(/^loads$/gm)?.length, 1);
  });

  test('end with their template, and others come from a new one', async (t) => {
    const service = await serveModel(t, SHARED, { workers: 2 });
    const { model: pids = [] } = await service.ready();
    const held = service.ask('hold');
    await until('a worker runs it', () => service.stage('model').workers.some(({ busy }) => busy));
    const first = template(service);
    kill9(first);
    const { code, error } = await held.answer;
    assert.equal(code, 'worker_lost');
    assert.match(error?.message ?? '', /ended with its template/);
    for (const pid of pids) assert.ok(!isAlive(pid));
    await service.replaced('model', pids);
    const [, , , second] = await service.value<Told>('x');
    assert.notEqual(second, first);
    await until('one template is left', () => templates(service).length === 1);
    assert.equal(second, template(service));
  });

  test('serve again at once after the death of their template, however many they were', async (t) => {
    const workers = 6;
    const service = await serveModel(t, SHARED, { workers });
    const { model: pids = [] } = await service.ready();
    kill9(template(service));
    await until('the old ones have gone', () => pids.every((pid) => !isAlive(pid)));
    await service.replaced('model', pids);
    assert.equal(service.stage('model').circuit, 'closed');
    assert.doesNotMatch(log(service), /requests are refused|tries one worker/);
  });

  for (const without of [[], ['setpriv']] as const) {
    test(`end when their engine is killed${without.length > 0 ? `, without ${without}` : ''}`, async (t) => {
      const file = join(folderFor(t), 'model.py');
      writeFileSync(file, SHARED);
      const stage: StageSpec = { id: 'model', python: file, preload: true, init: { text: 'a' }, workers: 2 };
      const service = await serve(t, { stages: [stage], without });
      const { model: pids = [] } = await service.ready();
      const old = [template(service), ...pids];
      kill9(service.enginePid);
      await until('they have gone', () => old.every((pid) => !isAlive(pid)));
      await until('others serve', async () => (await service.answer('x')).code === 'ok');
    });
  }

  test('wait while the template loads, and start again if it is killed meanwhile', async (t) => {
    const folder = folderFor(t);
    const code = `
import os, time
def preload(init):
    open(init + "/loading", "a").write("x")
    while not os.path.exists(init + "/go"): time.sleep(0.01)
def predict(value): return value`;
    const service = await serveModel(t, code, { workers: 2, init: folder });
    const loading = (): number =>
      existsSync(join(folder, 'loading')) ? readFileSync(join(folder, 'loading'), 'utf8').length : 0;
    await until('it loads', () => loading() === 1);
    const waiting = await until('a worker that waits for it is told', () => service.pids('model')[0]);
    const early = service.ask(1);
    kill9(waiting);
    // Both workers have failed to start, so that nothing can serve it for now.
    const { code: outcome, error } = await early.answer;
    assert.equal(outcome, 'stage_unavailable');
    assert.match(error?.message ?? '', /was killed by SIGKILL/);
    await until('another one loads', () => loading() === 2);
    writeFileSync(join(folder, 'go'), '');
    await service.ready();
    assert.deepEqual(await Promise.all([1, 2, 3].map((value) => service.value(value))), [1, 2, 3]);
  });

  test('are forked anew after a deploy, a save and a restart, and the old template goes', async (t) => {
    const service = await serveModel(t, SHARED, { workers: 2, watch: true });
    await service.ready();
    const [, , , first] = await service.value<Told>('x');
    const spec: StageSpec = { id: 'model', python: service.file, preload: true, watch: true, workers: 2 };
    service.apply({ stages: [{ ...spec, init: { text: 'b' } }] });
    await until('it is deployed', async () => (await service.value<Told>('x'))[0] === 'bbb');
    await until('the old template has gone', () => !isAlive(first));

    writeFileSync(service.file, SHARED.replace('* 3', '* 2'));
    await until('it is reloaded', async () => (await service.value<Told>('x'))[0] === 'bb');

    const [, , , third] = await service.value<Told>('x');
    service.service.actOnStage('model', 'restart');
    await until('it is restarted', async () => (await service.value<Told>('x'))[3] !== third);
    await until('one template is left', () => templates(service).length === 1);
  });

  test('come again from the template that waits while a stage sleeps', async (t) => {
    const service = await serveModel(t, SHARED, { workers: 2, scaling: { min: 0, idleMs: 300 } });
    const [, , pid, parent] = await service.value<Told>('x');
    await until('it sleeps', () => service.stage('model').workers.length === 0);
    await until('its worker has ended', () => !isAlive(pid));
    const [, loads, next, again] = await service.value<Told>('x');
    assert.notEqual(next, pid);
    assert.deepEqual([loads, again], [1, parent]);
  });

  test('are killed as others are when a batch takes too long, with all that they have started', async (t) => {
    const code = `
import subprocess, sys, time
def preload(): pass
def predict(value):
    if value != "spin": return value
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    while True: pass`;
    const service = await serveModel(t, code, { runTimeoutMs: 1000 });
    const { code: outcome } = await service.answer('spin');
    assert.equal(outcome, 'deadline_exceeded');
    assert.equal(await service.value('next'), 'next');
    await until('what it had started has gone', () =>
      startedProcesses().every(({ command }) => !/sleep/.test(command)),
    );
  });

  test('may use a file without preload, which the log tells, and without the field nothing calls it', async (t) => {
    const plain = await serveModel(t, 'def predict(value): return value', { workers: 2 });
    assert.equal(await plain.value(3), 3);
    await until('the log tells', () => log(plain).includes('model.py has no preload: its workers share only what it'));
    const off = await serveModel(t, 'def preload(): raise OSError("called")\ndef predict(value): return value', {
      preload: false,
    });
    assert.equal(await off.value(4), 4);
  });
});

const CASES: readonly { name: string; content: string; cause: RegExp; stage?: Partial<StageSpec> }[] = [
  { name: 'raises', content: 'def preload(): raise OSError("no weights")', cause: /no weights/ },
  { name: 'ends its process', content: 'import sys\ndef preload(): sys.exit(9)', cause: /exited with code 9/ },
  {
    name: 'hangs',
    content: 'import time\ndef preload(): time.sleep(600)',
    stage: { startTimeoutMs: 1500 },
    cause: /not ready within 1500 ms/,
  },
  {
    name: 'leaves a thread',
    content: `import threading, time
def preload(): threading.Thread(target=time.sleep, args=(600,), name="reader", daemon=True).start()`,
    cause: /threads run after preload, and would be missing in forked workers \(reader\): start them in setup/,
  },
  {
    name: 'has used a GPU',
    content: `import sys, types
sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(is_initialized=lambda: True))
def preload(): pass`,
    cause: /preload has used a GPU, which forked workers cannot/,
  },
  {
    name: 'is no class method',
    content: 'class Model:\n    def preload(self): pass\n    def predict(self, value): return value',
    cause: /preload in .*model\.py must be a classmethod/,
  },
  {
    name: 'takes more than init',
    content: 'def preload(init, other): pass',
    cause: /preload in .*model\.py must have the form preload\(init\)/,
  },
  {
    name: 'takes init by its name only',
    content:
      'class Model:\n    @classmethod\n    def preload(cls, *, init): pass\n    def predict(self, value): return value',
    cause: /preload in .*model\.py must have the form preload\(cls, init\)/,
  },
  {
    name: 'is a class method that takes no class',
    content: 'class Model:\n    @classmethod\n    def preload(): pass\n    def predict(self, value): return value',
    cause: /preload in .*model\.py must have the form preload\(cls, init\)/,
  },
  { name: 'is a value', content: 'preload = True', cause: /preload in .*model\.py must have the form preload\(init\)/ },
  { name: 'is async', content: 'async def preload(): pass', cause: /preload in .*model\.py must be a plain function/ },
  { name: 'is in a file that does not parse', content: 'def preload(:', cause: /invalid syntax/ },
  { name: 'lacks a module', content: 'import no_such_package', cause: /No module named 'no_such_package'/ },
];

describe('a preload', { skip: WITHOUT_PYTHON }, () => {
  for (const { name, content, cause, stage } of CASES) {
    test(`that ${name} is told, and its requests are refused`, async (t) => {
      const predict = content.includes('predict') ? '' : '\ndef predict(value): return value';
      const service = await serveModel(t, `${content}${predict}`, { workers: 2, ...stage });
      await until('the stage says why', () =>
        service.stage('model').workers.every(({ error }) => cause.test(error ?? '')),
      ).catch(() => assert.fail(JSON.stringify(service.stage('model').workers)));
      const { code, error } = await within(service.answer(1), 'it is refused');
      assert.equal(code, 'stage_unavailable');
      assert.match(error?.message ?? '', cause);
    });
  }

  test('that is corrected lets the workers start', async (t) => {
    const service = await serveModel(t, 'import no_such_package\ndef predict(value): return value', { watch: true });
    await until('it does not start', () => service.stage('model').workers.some(({ error }) => error !== null));
    writeFileSync(service.file, 'def predict(value): return value');
    await until('it answers', async () => (await service.answer(5)).value === 5);
  });
});
