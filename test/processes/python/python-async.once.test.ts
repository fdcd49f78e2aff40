/** Modelets in async Python: everything may be async, and runs in one event loop. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** Serves a file that may import all that these tests need. */
async function serveFile(t: TestContext, code: string, stage: Partial<StageSpec> = {}): Promise<TestService> {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, `import asyncio, json, os, sys\n${code}`);
  return serve(t, { stages: [{ id: 'model', python, ...stage }] });
}

const EVERYTHING_ASYNC = `
class Model:
    examples = [1]

    def __init__(self, init):
        self._folder = init["folder"]

    async def setup(self):
        await asyncio.sleep(0)
        self._loop = asyncio.get_running_loop()

    async def preprocess(self, value):
        await asyncio.sleep(0)
        return value + 1

    async def predict(self, value):
        await asyncio.sleep(0)
        return [value, asyncio.get_running_loop() is self._loop]

    async def postprocess(self, result, value):
        await asyncio.sleep(0)
        return [*result, value]

    async def teardown(self):
        await asyncio.sleep(0)
        with open(os.path.join(self._folder, "calls"), "a") as calls:
            calls.write(json.dumps("teardown") + "\\n")
`;

/** Counts the items of each key, and notes the keys that end. The end of a key of which `held` is true waits for `end`. */
const endsSlowly = (held: string): string => `
class Model:
    def __init__(self, init):
        self._folder = init["folder"]

    async def predict(self, value, ctx):
        ctx.state["items"] = ctx.state.get("items", 0) + 1
        return ctx.state["items"]

    async def on_key_end(self, key, state):
        with open(os.path.join(self._folder, "calls"), "a") as calls:
            calls.write(json.dumps(key) + "\\n")
        while ${held} and not os.path.exists(os.path.join(self._folder, "end.open")):
            await asyncio.sleep(0.002)
`;

describe('a modelet in async Python', { skip: WITHOUT_PYTHON }, () => {
  for (const concurrency of [1, 4]) {
    test(`may have only async methods, which share a loop (concurrency ${concurrency})`, async (t) => {
      const folder = folderFor(t);
      const service = await serveFile(t, EVERYTHING_ASYNC, { init: { folder }, concurrency });
      assert.deepEqual(await service.value(1), [2, true, 2]);
      service.apply({ stages: [] });
      await until('it was torn down', () => callsIn(folder).includes('teardown'));
    });

    test(`finishes the calls that it runs before it ends (concurrency ${concurrency})`, async (t) => {
      const folder = folderFor(t);
      const code = `
async def predict(value):
    with open(${JSON.stringify(join(folder, 'calls'))}, "a") as calls:
        calls.write(json.dumps(value) + "\\n")
    while not os.path.exists(${JSON.stringify(join(folder, 'call.open'))}):
        await asyncio.sleep(0.002)
    return value
`;
      const service = await serveFile(t, code, { concurrency });
      const { model: old = [] } = await service.ready();
      const asked = [1, 2, 3].map((value) => service.ask(value));
      await until('some run', () => callsIn(folder).length > 0);
      service.service.actOnStage('model', 'restart');
      await service.replaced('model', old);
      release(folder, 'call');
      assert.deepEqual(await Promise.all(asked.map(async ({ answer }) => (await answer).value)), [1, 2, 3]);
    });

    test(`ends with sys.exit, and an error of a task in the background is only told (concurrency ${concurrency})`, async (t) => {
      const code = `
async def fails():
    raise ValueError("in the background")

async def predict(value):
    if value == "exit":
        sys.exit(3)
    asyncio.ensure_future(fails())
    await asyncio.sleep(0.01)
    return value
`;
      const service = await serveFile(t, code, { concurrency });
      assert.equal(await service.value('fine'), 'fine');
      const { code: failure, error } = await service.answer('exit');
      assert.equal(failure, 'worker_lost');
      assert.match(error?.message ?? '', /exited with code 3/);
      assert.equal(await service.value('fine again'), 'fine again');
    });
  }

  test('may use time limits of asyncio after a call was cancelled', async (t) => {
    const folder = folderFor(t);
    const code = `
async def predict(value):
    with open(${JSON.stringify(join(folder, 'calls'))}, "a") as calls:
        calls.write(json.dumps(value) + "\\n")
    await asyncio.wait_for(asyncio.sleep(value), 20)
    return value
`;
    const service = await serveFile(t, code, { batch: { maxBatchSize: 2, policy: 'oldest', maxWaitMs: 60_000 } });
    await service.ready();
    const [gone, next] = [service.ask(10), service.answer(0.01)];
    await until('the first runs', () => callsIn(folder).length > 0);
    service.service.desk.abandon(gone.id, new ModeletError('cancelled', 'the caller went away'));
    assert.equal((await gone.answer).code, 'cancelled');
    assert.equal((await next).value, 0.01);
  });

  test('keeps the state of a key to its end, although the client of its last item goes away', async (t) => {
    const folder = folderFor(t);
    const code = `
class Model:
    def __init__(self, init):
        self._folder = init["folder"]

    async def predict(self, value, ctx):
        ctx.state["last"] = value
        return os.getpid()

    async def on_key_end(self, key, state):
        self._note("begins")
        while not os.path.exists(os.path.join(self._folder, "end.open")):
            await asyncio.sleep(0.002)
        self._note(state["last"])

    def _note(self, text):
        with open(os.path.join(self._folder, "calls"), "a") as calls:
            calls.write(json.dumps(text) + "\\n")
`;
    const service = await serveFile(t, code, { init: { folder }, keyBy: 'topic', concurrency: 2 });
    const { model: [pid] = [] } = await service.ready();
    const gone = service.ask('kept', { key: 'a', meta: { keyEnd: true } });
    await until('the key ends', () => callsIn(folder).length === 1);
    service.service.desk.abandon(gone.id, new ModeletError('cancelled', 'the caller went away'));
    assert.equal(await service.value('beside it', { key: 'b' }), pid);
    release(folder, 'end');
    await until('the key has ended', () => callsIn(folder).length === 2);
    assert.deepEqual(callsIn(folder), ['begins', 'kept']);
  });

  test('keeps the state of a key that has come while another key of its batch ends', async (t) => {
    const folder = folderFor(t);
    const code = endsSlowly('key == "x"');
    const batch = { policy: 'oldest', maxBatchSize: 2, maxWaitMs: 60_000 } as const;
    const service = await serveFile(t, code, { init: { folder }, keyBy: 'topic', concurrency: 2, batch });
    const pair = (one: string, other: string, meta = {}) => [
      service.value(null, { key: one }),
      service.value(null, { key: other, meta }),
    ];
    assert.deepEqual(await Promise.all(pair('x', 'y', { keyEnd: true })), [1, 1]);
    const waiting = Promise.all(pair('a', 'x', { keyStart: true }));
    await until('the earlier state of x ends', () => callsIn(folder).includes('x'));
    assert.deepEqual(await Promise.all(pair('b', 'c')), [1, 1]);
    release(folder, 'end');
    assert.deepEqual(await waiting, [1, 1]);
    assert.deepEqual(await Promise.all(pair('a', 'z')), [2, 1]);
    assert.deepEqual(callsIn(folder), ['y', 'x']);
  });

  test('ends each idle key once, although the ends take long', async (t) => {
    const folder = folderFor(t);
    const code = endsSlowly('key != "last"');
    const service = await serveFile(t, code, { init: { folder }, keyBy: 'topic', concurrency: 3, keyIdleMs: 300 });
    await Promise.all([service.value(1, { key: 'a' }), service.value(1, { key: 'b' })]);
    await until('the first key ends', () => callsIn(folder).length === 1);
    await service.value(1, { key: 'last' });
    await until('the second key ends', () => callsIn(folder).length >= 2);
    release(folder, 'end');
    await until('the last key ends', () => callsIn(folder).includes('last'));
    assert.deepEqual(callsIn(folder).toSorted(), ['a', 'b', 'last']);
  });

  test('fails the sequences of a step that awaits a cancelled task, and takes the next step', async (t) => {
    const code = `
class Steps:
    async def step(self, sequences):
        for sequence in sequences:
            if sequence.input == "cancelled":
                task = asyncio.ensure_future(asyncio.sleep(60))
                task.cancel()
                await task
            sequence.end(sequence.input)
`;
    const service = await serveFile(t, code, { concurrency: 2 });
    const { code: failure, error } = await service.answer('cancelled');
    assert.deepEqual([failure, error?.message], ['modelet_failed', 'CancelledError']);
    assert.equal(await service.value('fine'), 'fine');
  });
});

test('a plain predict that returns an awaitable fails its item, and says what to do', {
  skip: WITHOUT_PYTHON,
}, async (t) => {
  const code = 'def predict(value):\n    return asyncio.sleep(0, value) if value else "plain"\n';
  const service = await serveFile(t, code);
  const { code: failure, error } = await service.answer(1);
  assert.equal(failure, 'modelet_failed');
  assert.match(error?.message ?? '', /returned an awaitable, but none of its methods is an async def/);
  assert.equal(await service.value(0), 'plain');
});
