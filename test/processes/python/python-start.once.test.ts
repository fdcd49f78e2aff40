/** Stages in Python that do not start say why, on their node and to who asks; interpreters are found and refused. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const FINE = 'def predict(value, ctx):\n    return value';

const CASES: readonly { name: string; content: string; cause: RegExp; stage?: Partial<StageSpec> }[] = [
  {
    name: 'a syntax error',
    content: 'def predict(value):\n    return value +',
    cause: /invalid syntax \(model\.py, line 2\)/,
  },
  {
    name: 'a package that it needs is missing',
    content: 'import no_such_package',
    cause: /No module named 'no_such_package'/,
  },
  { name: 'raises while loading', content: 'raise RuntimeError("no GPU")', cause: /no GPU/ },
  { name: 'no predict', content: 'def run(value): return value', cause: /model\.py must have a function predict/ },
  {
    name: 'two classes',
    content: 'class A:\n    def predict(self, x): return x\nclass B:\n    def predict(self, x): return x',
    cause: /must have one class with a method predict, found A, B/,
  },
  {
    name: 'a plain predict with a concurrency',
    content: 'def predict(value): return value',
    stage: { concurrency: 4 },
    cause: /a concurrency of 4 needs async def predict; a plain predict runs one call at a time/,
  },
  {
    name: 'setup raises',
    content: 'class M:\n    def setup(self): raise OSError("no weights")\n    def predict(self, x): return x',
    cause: /no weights/,
  },
  {
    name: 'the constructor raises',
    content: 'class M:\n    def __init__(self, init): init["weights"]\n    def predict(self, x): return x',
    cause: /KeyError: 'weights'/,
  },
  {
    name: 'an example fails',
    content: 'def predict(value): return 1 / value\npredict.examples = [1, 0]',
    cause: /the warm-up failed at example 1: division by zero/,
  },
  {
    name: 'examples fail together',
    content: `class M:
    batch = True
    examples = [1]
    def predict(self, values):
        if len(values) == 4: raise MemoryError("too many")
        return values`,
    stage: { batch: { maxBatchSize: 4 } },
    cause: /the warm-up failed at a batch of 4 examples: too many/,
  },
  { name: 'ends its process', content: 'import sys\nsys.exit(9)', cause: /exited with code 9/ },
  {
    name: 'never ready',
    content: 'while True: pass',
    stage: { startTimeoutMs: 1500 },
    cause: /not ready within 1500 ms/,
  },
  {
    name: 'no such interpreter',
    content: FINE,
    stage: { interpreter: 'python-of-nobody' },
    cause: /no Python called python-of-nobody in PATH/,
  },
  {
    name: 'no such file as the interpreter',
    content: FINE,
    stage: { interpreter: '/nowhere/python' },
    cause: /no Python at \/nowhere\/python/,
  },
  {
    name: 'an interpreter that may not be run',
    content: FINE,
    stage: { interpreter: fileURLToPath(import.meta.url) },
    cause: /no permission to run the Python at .*python-start\.once\.test\.js/,
  },
  {
    name: 'no Python at all',
    content: FINE,
    stage: { env: { PATH: '/nowhere' } },
    cause: /no Python found: looked for .*\.venv.*python3 in PATH\. Modelets/,
  },
];

/** Serves a stage of a file in a separate folder. */
async function serveFile(t: TestContext, content: string, stage: Partial<StageSpec> = {}) {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, content);
  const spec: StageSpec = { id: 'model', python, requireFrom: dirname(python), ...stage };
  return { file: python, service: await serve(t, { stages: [spec] }) };
}

async function causeOf(service: TestService): Promise<string> {
  return until('it failed to start', () => service.stage('model').workers[0]?.error);
}

describe('a stage in Python that does not start', { skip: WITHOUT_PYTHON, concurrency: 3 }, () => {
  for (const { name, content, stage, cause } of CASES) {
    test(`${name}: the status and the log show the cause`, async (t) => {
      const { service } = await serveFile(t, content, stage);
      assert.match(await causeOf(service), cause);
      const { code, error } = await service.answer(1);
      assert.equal(code, 'stage_unavailable');
      assert.match(error?.message ?? '', cause);
    });
  }

  test('starts by itself when its file is repaired', async (t) => {
    const { service, file } = await serveFile(t, 'raise RuntimeError("not yet")');
    assert.match(await causeOf(service), /not yet/);
    writeFileSync(file, FINE);
    await service.ready();
    assert.equal(await service.value(7), 7);
  });
});

/** Runs a training script in a folder: it pickles a model whose class it defines itself. Returns the pickle's path. */
function trained(folder: string, protocol: number): string {
  const lines = `
import pickle
class Doubler:
    def run(self, value): return 2 * value
with open("model.pkl", "wb") as file: pickle.dump(Doubler(), file, ${protocol})`;
  const { status, stderr } = spawnSync('python3', ['-c', lines], { cwd: folder, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return JSON.stringify(join(folder, 'model.pkl'));
}

describe('a pickle of a script', { skip: WITHOUT_PYTHON }, () => {
  const doubler = 'import pickle\nclass Doubler:\n    def run(self, value): return 2 * value\n';

  for (const protocol of [2, 4]) {
    test(`finds the classes of the stage's file, with protocol ${protocol}`, async (t) => {
      const pickle = trained(folderFor(t), protocol);
      const lines = `${doubler}
EARLY = pickle.load(open(${pickle}, "rb"))
class Model:
    def setup(self): self.model = pickle.load(open(${pickle}, "rb"))
    def predict(self, value):
        late = pickle.load(open(${pickle}, "rb"))
        return [EARLY.run(value), self.model.run(value), late.run(value)]
`;
      const { service } = await serveFile(t, lines);
      assert.deepEqual(await service.value(7), [14, 14, 14]);
    });

    test(`whose class is missing says so once, with protocol ${protocol}, and starts when it is there`, async (t) => {
      const pickle = trained(folderFor(t), protocol);
      const model = `
import pickle
class Model:
    def setup(self): self.model = pickle.load(open(${pickle}, "rb"))
    def predict(self, value): return self.model.run(value)
`;
      const { service, file } = await serveFile(t, model);
      const says =
        /a pickle needs Doubler of the script that made it \(__main__\): define or import Doubler in model\.py/;
      assert.match(await causeOf(service), says);
      const { code, error } = await service.answer(1);
      assert.equal(code, 'stage_unavailable');
      assert.match(error?.message ?? '', says);
      assert.equal(service.stage('model').workers[0]?.restarts, 0);
      assert.equal(service.logs.filter(({ message }) => message.includes('Doubler')).length, 1);
      writeFileSync(file, `${doubler}${model}`);
      await service.ready();
      assert.equal(await service.value(7), 14);
    });
  }
});

/** Writes an interpreter that says who it is, or pretends to be an old one. */
function interpreter(file: string, prelude: string): string {
  mkdirSync(dirname(file), { recursive: true });
  const real = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).stdout.trim();
  const program = `import os, runpy, sys; ${prelude}; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name="__main__")`;
  writeFileSync(file, `#!/bin/sh\nexec ${real} -c '${program}' "$@"\n`);
  chmodSync(file, 0o755);
  return file;
}

const WHO = 'import os\ndef predict(value):\n    return os.environ.get("WHO", "other")';
const calls = (who: string): string => `os.environ["WHO"] = "${who}"`;

describe('the interpreter of a stage in Python', { skip: WITHOUT_PYTHON }, () => {
  test('is the one of .venv beside the file, else of .venv in the user directory, else python3', async (t) => {
    const userDir = folderFor(t);
    interpreter(join(userDir, '.venv', 'bin', 'python'), calls('user'));
    const folder = folderFor(t);
    const python = join(folder, 'model.py');
    writeFileSync(python, WHO);
    const stage = (id: string, requireFrom: string): StageSpec => ({ id, python, requireFrom });
    const plain = await serve(t, { stages: [stage('plain', folder)] });
    assert.equal(await plain.value(null), 'other');
    const user = await serve(t, { stages: [stage('user', userDir)] });
    assert.equal(await user.value(null), 'user');
    interpreter(join(folder, '.venv', 'bin', 'python'), calls('beside'));
    const beside = await serve(t, { stages: [stage('beside', userDir)] });
    assert.equal(await beside.value(null), 'beside');
  });

  test('may be a path, which keeps its last link, or a name in PATH', async (t) => {
    const folder = folderFor(t);
    const target = interpreter(join(folder, 'bin', 'snake'), calls('snake'));
    symlinkSync(target, join(folder, 'linked'));
    const python = join(folder, 'model.py');
    writeFileSync(python, WHO);
    const env = { PATH: join(folder, 'bin') };
    const stages: StageSpec[] = [
      { id: 'path', python, interpreter: join(folder, 'linked') },
      { id: 'name', python, interpreter: 'snake', env },
    ];
    const service = await serve(t, { stages, routes: { path: ['path'], name: ['name'] } });
    for (const entry of ['path', 'name']) assert.equal(await service.value(null, { entry }), 'snake');
  });

  test('that is too old is refused with its version and the required one', async (t) => {
    const old = interpreter(join(folderFor(t), 'old'), 'sys.version_info = (3, 6, 15)');
    const { service } = await serveFile(t, FINE, { interpreter: old });
    assert.match(await causeOf(service), /modelets need Python 3\.9 or newer; .* is Python 3\.6/);
  });

  test('has the folder of the file in its path and nothing of this package, in any environment', async (t) => {
    const folder = folderFor(t);
    writeFileSync(join(folder, 'codec.py'), 'NAME = "mine"');
    const python = join(folder, 'json.py');
    writeFileSync(
      python,
      'import codec, sys\ndef predict(value):\n    return [codec.NAME, [p for p in sys.path if "worker" in p], sys.argv]',
    );
    const service = await serve(t, { stages: [{ id: 'model', python, env: { PYTHONSAFEPATH: '1' } }] });
    assert.deepEqual(await service.value(null), ['mine', [], [python]]);
  });
});
