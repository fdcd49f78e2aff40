/**
 * Python that a user types into the dialog: its three tabs, in a real worker.
 * Shows: worker python-code.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { messageWithPlace } from '../../../src/observe/log/failures.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** Serves stages, each entered at its own name. */
async function serveEach(
  t: Parameters<typeof serve>[0],
  stages: Readonly<Record<string, Partial<StageSpec>>>,
): Promise<TestService> {
  const ids = Object.keys(stages);
  return serve(t, {
    stages: ids.map((id) => ({ id, ...stages[id] })),
    routes: Object.fromEntries(ids.map((id) => [id, [id]])),
  });
}

const COUNTS = {
  setup: `from __future__ import annotations
import math
from string import *
STEP: int = init["step"]

class Total:
    def __init__(self, value: int) -> None:
        self.value = value

def add(total, value):
    total.value += STEP * value
    return math.floor(total.value)

if ctx.stage == "counts":
    return Total(1000)
state = "not reached"`,
  code: 'return [add(state, input), ctx.worker, init["step"], digits]',
  teardown: 'with open(init["file"], "w") as file:\n    file.write(str(state.value))',
};

/** Pools in all ways to start processes, threads and programs. */
const PROCESSES = {
  setup: `import multiprocessing, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
try:
    import no_such_module
except ImportError:
    no_such_module = None
FACTORS = tuple(range(1, 3))
loaded = threading.Event()
loaded.set()
class Pair:
    def __init__(self, value): self.value = value
def work(pair): return [pair.value * FACTORS[1], "loaded" in globals()]
pool = multiprocessing.get_context("spawn").Pool(1)
state = 7`,
  code: `if input == "pool": return pool.map(work, [Pair(1), Pair(2)])
if input == "thread":
    found = []
    thread = threading.Thread(target=lambda: found.append(state))
    thread.start()
    thread.join()
    return found
if input == "program": return subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout
if input == "file": return __file__
context = multiprocessing.get_context(input)
with ProcessPoolExecutor(1, mp_context=context) as executor: return list(executor.map(work, [Pair(3)]))`,
};

describe('Python in the dialog', { skip: WITHOUT_PYTHON }, () => {
  test('has tabs as JavaScript has them, also async ones, in batches and in parts', async (t) => {
    const file = join(folderFor(t), 'stopped');
    const service = await serveEach(t, {
      counts: { init: { step: 10, file }, inlinePython: COUNTS },
      blank: { inlinePython: '# nothing' },
      batch: {
        predict: 'batch',
        batch: { maxBatchSize: 4, policy: 'oldest', maxWaitMs: 50 },
        inlinePython: 'return [[value, len(input)] for value in input]',
      },
      waits: {
        concurrency: 4,
        inlinePython: {
          setup:
            'import asyncio\nawait asyncio.sleep(0)\nreturn asyncio.Barrier(2) if hasattr(asyncio, "Barrier") else None',
          code: 'if state: await state.wait()\nawait asyncio.sleep(0)\nreturn input',
          teardown: 'await asyncio.sleep(0)',
        },
      },
      parts: { inlinePython: 'for number in range(input): yield number\nreturn "end"' },
    });
    assert.deepEqual(await service.value(2, { entry: 'counts' }), [1020, 0, 10, '0123456789']);
    assert.deepEqual(await service.value(3, { entry: 'counts' }), [1050, 0, 10, '0123456789']);
    assert.equal(await service.value(1, { entry: 'blank' }), null);
    const together = [1, 2, 3, 4].map((value) => service.value(value, { entry: 'batch' }));
    assert.deepEqual(
      await Promise.all(together),
      [1, 2, 3, 4].map((value) => [value, 4]),
    );
    const both = ['a', 'b'].map((value) => service.value(value, { entry: 'waits' }));
    assert.deepEqual(await Promise.all(both), ['a', 'b']);
    const parts: unknown[] = [];
    const end = await service.value(3, { entry: 'parts', onPart: (part) => void parts.push(part) });
    assert.deepEqual([parts, end], [[0, 1, 2], 'end']);
    service.apply({ stages: [] });
    await until('On Stop has run', () => existsSync(file) && readFileSync(file, 'utf8') === '1050');
  });

  test('starts processes in every way, threads and programs as a script does, and leaves no folder behind', async (t) => {
    const service = await serveEach(t, { works: { inlinePython: PROCESSES } });
    const works = (input: string): Promise<unknown> => service.value(input, { entry: 'works' });
    const folder = String(await works('file')).replace(/\/[^/]+$/, '');
    assert.match(folder, /modelet-python-/);
    // A process that begins anew has the definitions, and loads nothing.
    for (const [input, result] of [
      [
        'pool',
        [
          [2, false],
          [4, false],
        ],
      ],
      ['spawn', [[6, false]]],
      ['forkserver', [[6, false]]],
      ['fork', [[6, true]]],
      ['thread', [7]],
      ['program', '42\n'],
    ] as const)
      assert.deepEqual(await works(input), result, input);
    // The next worker removes the folder of a worker that was killed.
    const [pid] = service.pids('works');
    process.kill(pid as number, 'SIGKILL');
    await until('another worker serves', () => service.pids('works')[0] !== pid && service.stage('works').ready === 1);
    assert.equal(existsSync(folder), false);
    const next = String(await works('file')).replace(/\/[^/]+$/, '');
    service.apply({ stages: [] });
    await until('its folder is gone', () => !existsSync(next));
  });

  test('errors name the tab and line, and code that cannot run is refused before anything of it runs', async (t) => {
    const broken: Readonly<Record<string, readonly [NonNullable<StageSpec['inlinePython']>, RegExp]>> = {
      predict: ['x = 1\nreturn (x', /^does not start: predict: Predict:2: .*;/],
      indent: ['if input:\nreturn 1', /^does not start: indent: Predict:2: expected an indented block/],
      javascript: ['return input;\nconst x = 1;', /^does not start: javascript: Predict:2: invalid syntax/],
      start: [{ setup: 'def f(:\n  pass', code: '' }, /^does not start: start: On Start:1: invalid syntax/],
      stop: [{ setup: 'raise SystemExit(9)', code: '', teardown: 'yield 1' }, /: stop: On Stop: only Predict may/],
      module: [{ setup: '\nimport no_such', code: '' }, /'no_such' \(list its package in .*\) \(On Start:2\)/],
      pickle: [
        { setup: 'import pickle\npickle.loads(b"c__main__\\nScale\\n.")', code: '' },
        /a pickle needs Scale of the script that made it \(__main__\): define or import Scale in On Start/,
      ],
    };
    const service = await serveEach(t, {
      ...Object.fromEntries(Object.entries(broken).map(([id, [inlinePython]]) => [id, { inlinePython }])),
      lines: {
        inlinePython: {
          setup: 'def fails(x):\n    return 1 / x',
          code: '# one\nif input: raise ValueError("no")\nreturn fails(input)',
        },
      },
    });
    for (const [id, [, told]] of Object.entries(broken)) {
      assert.equal((await service.answer(1, { entry: id })).code, 'stage_unavailable', id);
      const { message = '' } = service.logs.find(({ stage, level }) => stage === id && level === 'error') ?? {};
      assert.match(message, told);
    }
    const [raised, divided] = await Promise.all([1, 0].map((value) => service.answer(value, { entry: 'lines' })));
    assert.ok(raised?.error && divided?.error);
    assert.equal(messageWithPlace(raised.error), 'ValueError: no (Predict:2)');
    assert.equal(messageWithPlace(divided.error), 'ZeroDivisionError: division by zero (On Start:2)');
    assert.match(raised.error.stack ?? '', /File "lines: Predict", line 2, in predict\n +if input: raise ValueError/);
  });
});
