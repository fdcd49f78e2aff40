/** A stage is tested and measured with the settings of its dialog, deployed or not: in separate workers, of which nothing stays. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { digitsModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { startedProcesses } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';

interface Answer {
  readonly ok: boolean;
  readonly result?: string;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly stack: string;
    readonly place: { readonly property: string; readonly line: number } | null;
  };
  readonly example: string | null;
  readonly startMs: number | null;
  readonly runMs: number | null;
  readonly log: readonly { readonly level: string; readonly text: string }[];
  readonly more: number;
  readonly wholeMessages: { readonly why: string; readonly costs: { readonly messages: number } | null } | null;
}

interface MeasureLine {
  readonly progress?: { readonly step: number; readonly of: number; readonly items: number; readonly workers: number };
  readonly ok?: boolean;
  readonly error?: { readonly code: string; readonly message: string };
  readonly runs?: readonly { readonly items: number; readonly ms: number }[];
  readonly slowdowns?: readonly number[];
}

type Settings = Readonly<Record<string, unknown>>;

describe('testing a stage', () => {
  const red = useNodeRed({
    flows: [
      TAB,
      runtime(),
      ...endpoint('/deployed', 'deployed'),
      stage('deployed', 'return input.number * 2;', 'second'),
      stage('second', 'return input;', 'collector /deployed'),
      stage('whole', 'flow.increment("n"); return msg;', []),
    ],
  });

  function ask(settings: Settings, sample?: unknown, init: RequestInit = {}): Promise<Response> {
    const asked = { stage: { id: 'tried', z: 'tab', name: 'tried', source: 'inline', ...settings }, sample };
    return red.post('/admin/modelets/stages/test', asked, init);
  }

  async function tried(settings: Settings, sample?: unknown): Promise<Answer> {
    const response = await ask(settings, sample);
    assert.equal(response.status, 200);
    return (await response.json()) as Answer;
  }

  async function failed(settings: Settings, sample?: unknown): Promise<NonNullable<Answer['error']>> {
    const { ok, error } = await tried(settings, sample);
    assert.ok(!ok && error);
    return error;
  }

  /** The workers that run, besides that of the deployed stage. */
  function workers(): readonly number[] {
    return startedProcesses().flatMap(({ pid, command }) => (/worker\/(?:main\.js|python)/.test(command) ? [pid] : []));
  }

  test('undeployed code answers, with its settings, its log and its times', async () => {
    const before = workers();
    const answer = await tried(
      {
        setup: 'console.log("starting"); return { sum: 40 };',
        code: 'node.warn("adding"); return { sum: state.sum + input.a + init.b, env: env.get("TRIED") };',
        teardown: 'console.log("stopping");',
        init: '{"b": 1}',
        env: '{"TRIED": "yes"}',
        cpus: '0',
      },
      { a: 1 },
    );
    assert.deepEqual(JSON.parse(answer.result ?? ''), { sum: 42, env: 'yes' });
    assert.deepEqual(answer.log, [
      { level: 'info', text: 'starting' },
      { level: 'warn', text: 'adding' },
      { level: 'info', text: 'stopping' },
    ]);
    assert.ok(answer.startMs !== null && answer.runMs !== null && answer.more === 0);
    assert.deepEqual(workers(), before);
  });

  test('code with the habits of a function node is told what its runs carry, and what that costs where it is deployed', async () => {
    const code = 'flow.increment("n"); return msg;';
    const { wholeMessages } = await tried({ code }, 1);
    assert.deepEqual(wholeMessages, { why: 'uses flow.increment', costs: null });
    red.send('whole', { payload: 1 });
    await until('it has run', async () => (await tried({ id: 'whole', code }, 1)).wholeMessages?.costs?.messages === 1);
    assert.equal((await tried({ code: 'return input;' }, 1)).wholeMessages, null);
  });

  test('a typo is one error with its line, and nothing starts again', async () => {
    const before = workers();
    const { code, message, place } = await failed({ code: 'const a = 1;\nreturn a +;' }, 1);
    assert.equal(code, 'stage_unavailable');
    assert.match(message, /^does not start: tried: Predict:2: Unexpected token/);
    assert.deepEqual(place, { property: 'code', tab: 'Predict', line: 2, column: 1 });
    assert.deepEqual(workers(), before);
  });

  test('an error in each tab has its line there', async () => {
    const inStart = await failed({ setup: '\n\nthrow new TypeError("no model");' }, 1);
    assert.match(inStart.message, /^does not start: no model$/);
    assert.deepEqual([inStart.place?.property, inStart.place?.line], ['setup', 3]);
    const inPredict = await failed({ code: 'await null;\nreturn input.a.b;' }, {});
    assert.equal(inPredict.code, 'modelet_failed');
    assert.deepEqual([inPredict.place?.property, inPredict.place?.line], ['code', 2]);
    assert.doesNotMatch(inPredict.stack, /run-batch/);
  });

  test('settings that cannot be used are an answer as well', async () => {
    const { message, stack } = await failed({ init: '{' });
    assert.match(message, /^Init: /);
    assert.equal(stack, '');
    assert.match((await failed({ source: 'file', path: 'missing.js' })).message, /^File: .*missing\.js/);
    assert.equal((await failed({ code: 'return 1;' })).message, 'the modelet has no example: type an input');
    assert.equal((await red.post('/admin/modelets/stages/test', {})).status, 400);
  });

  test('an input that does not match its schema fails as in a deployed stage', async () => {
    const { code } = await failed({ inputSchema: '{"type": "number"}' }, 'text');
    assert.equal(code, 'invalid_input');
  });

  test('without a sample it runs the example of the modelet, or an example in its schema', async () => {
    await writeFile(
      join(red.userDir, 'tried.cjs'),
      'module.exports = class { static examples = [{ text: "a b" }]; predict({ text }) { return text.split(" "); } };',
    );
    const byFile = await tried({ source: 'file', path: 'tried.cjs', name: '' });
    assert.deepEqual(JSON.parse(byFile.result ?? ''), ['a', 'b']);
    assert.equal(byFile.example, '{"text":"a b"}');
    const schema = { type: 'object', properties: { n: { type: 'integer', minimum: 3 }, on: { type: 'boolean' } } };
    const bySchema = await tried({ inputSchema: JSON.stringify(schema) });
    assert.deepEqual(JSON.parse(bySchema.result ?? ''), { n: 3, on: true });
  });

  test('an ONNX model runs with its options', async () => {
    const answer = await tried({ source: 'onnx', path: digitsModel, init: '{"softmax": true}' });
    assert.equal((JSON.parse(answer.result ?? '[]') as unknown[]).length, 10);
  });

  test('a file goes in as its bytes, and a picture comes back with the boxes in it', async () => {
    const box = '[{ label: input.length + " <bytes>", score: 0.9, box: { xmin: 1, ymin: 1, xmax: 9, ymax: 9 } }]';
    const asked = { id: 'tried', z: 'tab', name: 'tried', source: 'inline', code: `return ${box};` };
    const send = (file: Uint8Array): Promise<Response> => {
      const body = Buffer.concat([Buffer.from(`${JSON.stringify({ stage: asked })}\n`), file]);
      const headers = { 'Content-Type': 'application/octet-stream' };
      return fetch(`${red.url}/admin/modelets/stages/test`, { method: 'POST', headers, body });
    };
    const { encode } = createRequire(import.meta.url)('jpeg-js') as {
      encode(picture: object, quality: number): { readonly data: Buffer };
    };
    const picture = encode({ data: Buffer.alloc(16 * 16 * 4, 99), width: 16, height: 16 }, 90).data;
    const drawn = (await (await send(picture)).json()) as Answer & { readonly drawing: string | null };
    assert.match(drawn.drawing ?? '', /^<svg .*data:image\/jpeg;base64,.*>\d+ &#60;bytes&#62; 90 %<\/text><\/svg>$/);
    assert.equal((JSON.parse(drawn.result ?? '[]') as { label: string }[])[0]?.label, `${picture.length} <bytes>`);
    const other = (await (await send(Buffer.from('RIFF, a sound\n'))).json()) as typeof drawn;
    assert.deepEqual([other.ok, other.drawing], [true, null]);
    assert.equal((await send(Buffer.alloc(17 * 1024 * 1024 + 1))).status, 413);
  });

  test('bytes go in and out', async () => {
    const sample = { type: 'Buffer', data: [1, 2, 3] };
    const answer = await tried({ code: 'return Buffer.concat([input, Buffer.from([4])]);' }, sample);
    assert.equal(answer.result, '<Buffer 01 02 03 04>');
  });

  test('a Python file runs, and its error comes with its stack', { skip: WITHOUT_PYTHON }, async () => {
    const path = join(red.userDir, 'tried.py');
    await writeFile(path, 'def predict(input):\n    print("hello")\n    return 1 / input\n');
    const answer = await tried({ source: 'python', path }, 4);
    assert.equal(answer.result, '0.25');
    assert.deepEqual(answer.log, [{ level: 'info', text: 'hello' }]);
    const { message, stack } = await failed({ source: 'python', path }, 0);
    assert.match(message, /division by zero/);
    assert.match(stack, /tried\.py", line 3/);
  });

  test('a preload that leaves a thread does not pass, as it would not when deployed', {
    skip: WITHOUT_PYTHON,
  }, async () => {
    const path = join(red.userDir, 'preloads.py');
    const run = 'threading.Thread(target=time.sleep, args=(600,), name="reader", daemon=True).start()';
    const preloading = (body: string): Promise<void> =>
      writeFile(path, `import threading, time\ndef preload(): ${body}\ndef predict(input): return input\n`);
    await preloading('pass');
    assert.equal((await tried({ source: 'python', path, preload: true }, 4)).result, '4');
    await preloading(run);
    assert.equal((await tried({ source: 'python', path }, 4)).result, '4');
    const { message } = await failed({ source: 'python', path, preload: true }, 4);
    assert.match(message, /^does not start: threads run after preload, .* \(reader\): start them in setup/);
  });

  test('an endless loop ends at the run limit, a full memory and a crash at once, and nothing is left', async () => {
    const before = workers();
    const loop = await failed({ code: 'for (;;);', runTimeoutMs: 200 }, 1);
    assert.deepEqual([loop.code, loop.message], ['deadline_exceeded', 'the worker had no result within 200 ms']);
    const start = await failed({ setup: 'for (;;);', startTimeoutMs: '500' }, 1);
    assert.deepEqual([start.code, start.message], ['deadline_exceeded', 'the worker was not ready within 500 ms']);
    const full = await failed({ code: 'const all = []; for (;;) all.push(new Array(1e5).fill(1));', heapMb: 64 }, 1);
    assert.equal(full.code, 'worker_lost');
    assert.match(full.message, /its memory was full: its JavaScript heap is limited to 64 MB$/);
    const crash = await failed({ code: 'process.exit(3);' }, 1);
    assert.match(crash.message, /^the worker died: exited with code 3$/);
    assert.deepEqual([loop.stack, crash.stack], ['', '']);
    const slow = await tried({ teardown: 'for (;;);' }, 1);
    assert.equal(slow.result, '1');
    assert.deepEqual(workers(), before);
  });

  test('a flood of lines is cut, and ends the test', async () => {
    const { error, log, more } = await tried(
      { code: 'for (;;) { console.log("line"); await new Promise(setImmediate); }' },
      1,
    );
    assert.equal(error?.message, 'the worker printed more than 10000 lines');
    assert.equal(log.length, 200);
    assert.ok(more > 9000);
  });

  test('an input that is too large is refused', async () => {
    const response = await ask({}, 'x'.repeat(2 * 1024 * 1024));
    assert.equal(response.status, 413);
  });

  test('only two run at a time, and both end when those who asked go away', async () => {
    const before = workers();
    const leave = new AbortController();
    const hang = { setup: 'for (;;);' };
    const left = [1, 2].map((sample) => ask(hang, sample, { signal: leave.signal }).catch(() => null));
    await until('both run', () => workers().length === before.length + 2);
    const refused = await ask({}, 1);
    assert.equal(refused.status, 429);
    assert.equal(refused.headers.get('Retry-After'), '1');
    assert.equal(((await refused.json()) as Answer).error?.code, 'capacity_exceeded');
    leave.abort();
    assert.deepEqual(await Promise.all(left), [null, null]);
    await until('both are gone', async () => (await ask({}, 7)).status === 200);
    assert.deepEqual(workers(), before);
  });

  function measure(settings: Settings, more: object = {}, init: RequestInit = {}): Promise<Response> {
    const stage = { id: 'tried', z: 'tab', name: 'tried', source: 'inline', predict: 'batch', ...settings };
    return red.post('/admin/modelets/stages/measure', { stage, ...more }, init);
  }

  async function measured(settings: Settings, more: object = {}): Promise<MeasureLine[]> {
    const text = await (await measure(settings, more)).text();
    return text.split('\n').flatMap((line) => (line ? [JSON.parse(line) as MeasureLine] : []));
  }

  test('a stage is measured with its settings: each step is told, then the runs of each size and with each number of workers', async () => {
    const before = workers();
    const limits = { maxBatchSize: 2, maxWorkers: 2 };
    const lines = await measured(
      { code: 'return input.map((x) => init.times * x);', init: '{"times": 2}' },
      { sample: 7, ...limits },
    );
    assert.deepEqual(
      lines.flatMap(({ progress }) => progress ?? []),
      [
        { step: 1, of: 3, items: 1, workers: 1 },
        { step: 2, of: 3, items: 2, workers: 1 },
        { step: 3, of: 3, items: 2, workers: 2 },
      ],
    );
    const { ok, runs = [], slowdowns = [] } = lines.at(-1) ?? {};
    assert.deepEqual([ok, [...new Set(runs.map(({ items }) => items))], slowdowns.length], [true, [1, 2], 2]);
    assert.ok(runs.every(({ ms }) => ms > 0) && slowdowns[0] === 1);
    assert.deepEqual(workers(), before);
  });

  test('a stage that cannot be measured says why, and limits that cannot be used are refused', async () => {
    const before = workers();
    const errorOf = async (settings: Settings, more?: object): Promise<unknown> =>
      (await measured(settings, more)).at(-1)?.error?.message;
    assert.equal(await errorOf({ code: 'return input;' }), 'the modelet has no example: give an input');
    assert.match(String(await errorOf({ code: 'return a +;' }, { sample: 1 })), /^does not start: .*Predict:1: Unexp/);
    assert.equal(await errorOf({ code: 'throw new Error("no model");' }, { sample: 1 }), 'no model');
    assert.match(String(await errorOf({ code: 'process.exit(3);' }, { sample: 1 })), /^the worker died: .*code 3$/);
    assert.match(String(await errorOf({ init: '{' })), /^Init: /);
    for (const more of [{ maxBatchSize: 0 }, { maxBatchSize: '2' }, { maxWorkers: 1.5 }, { maxWorkers: 257 }])
      assert.equal((await measure({}, more)).status, 400, JSON.stringify(more));
    assert.equal((await red.post('/admin/modelets/stages/measure', {})).status, 400);
    assert.deepEqual(workers(), before);
  });

  test('one measurement runs at a time, beside tests, and its worker ends when the caller goes away', async () => {
    const before = workers();
    const leave = new AbortController();
    const running = measure({ code: 'for (;;);' }, { sample: 1 }, { signal: leave.signal }).then((response) =>
      response.text(),
    );
    await until('it runs', () => workers().length === before.length + 1);
    const refused = await measure({}, { sample: 1 });
    assert.deepEqual([refused.status, refused.headers.get('Retry-After')], [429, '5']);
    assert.equal((await tried({ code: 'return 3;' }, 1)).result, '3');
    leave.abort();
    await assert.rejects(running, { name: 'AbortError' });
    await until('its worker is gone', () => workers().length === before.length);
    const limits = { sample: 1, maxBatchSize: 1, maxWorkers: 1 };
    await until('another may run', async () => (await measured({}, limits)).at(-1)?.ok === true);
  });

  test('the last input of a deployed stage can be tried', async () => {
    const input = (id: string): Promise<Response> => fetch(`${red.url}/admin/modelets/stages/${id}/input`);
    assert.equal((await input('deployed')).status, 404);
    await red.post('/deployed', { number: 5 });
    const { sample } = (await (await input('deployed')).json()) as { sample: unknown };
    assert.deepEqual(sample, { number: 5 });
    assert.deepEqual(await (await input('second')).json(), { sample: 10 });
    assert.equal((await tried({ code: 'return input.number;' }, sample)).result, '5');
    assert.equal((await input('unknown')).status, 404);
  });

  test('the deployed stage does not notice', async () => {
    const before = await red.snapshot();
    const answer = await tried({ id: 'deployed', name: 'deployed', code: 'return 2;' }, 1);
    assert.equal(answer.result, '2');
    assert.equal(await (await red.post('/deployed', { number: 3 })).text(), '6');
    const pids = (snapshot: typeof before): unknown =>
      snapshot.runtimes.map(({ stages }) => stages[0]?.workers[0]?.pid);
    assert.deepEqual(pids(await red.snapshot()), pids(before));
  });
});
