/** Stages that do not start: the cause is shown, requests hear it at once, and a repaired stage recovers by itself. */
import assert from 'node:assert/strict';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** How exactly a moment is known that was polled for. */
const POLL_MS = 30;

interface Case {
  readonly name: string;
  /** Content of the modelet's file; null: no file. */
  readonly content: string | null;
  readonly stage?: Partial<StageSpec>;
  readonly cause: RegExp;
}

const CASES: readonly Case[] = [
  { name: 'no such file', content: null, cause: /Cannot find module .*model\.mjs/ },
  { name: 'a syntax error', content: 'export default (x) => {\n  return x +;\n};', cause: /Unexpected token ';'/ },
  {
    name: 'a module that it needs is missing',
    content: "import 'no-such-package';\nexport default (x) => x;",
    cause: /no-such-package/,
  },
  { name: 'throws while loading', content: 'throw new RangeError("no GPU");', cause: /no GPU/ },
  {
    name: 'setup throws',
    content: 'export default class { setup() { throw new Error("no weights"); } predict() {} }',
    cause: /no weights/,
  },
  {
    name: 'setup rejects',
    content: 'export default class { async setup() { throw "no text either"; } predict() {} }',
    cause: /no text either/,
  },
  {
    name: 'the constructor throws',
    content: 'export default class { constructor() { throw new Error("bad init"); } predict() {} }',
    cause: /bad init/,
  },
  {
    name: 'no default export',
    content: 'export const predict = (x) => x;',
    cause: /must export a function or a class.*undefined/,
  },
  {
    name: 'a default export that is no modelet',
    content: 'export default { predict: (x) => x };',
    cause: /must export a function or a class.*object/,
  },
  { name: 'no predict', content: 'export default class Model { setup() {} }', cause: /no method predict/ },
  { name: 'ends its process', content: 'process.exit(9);', cause: /exited with code 9/ },
  {
    name: 'never ready',
    content: 'export default class { setup() { return new Promise(() => setInterval(() => {}, 1000)); } predict() {} }',
    stage: { startTimeoutMs: 400 },
    cause: /was not ready within 400 ms/,
  },
  {
    name: 'never ready, and spinning',
    content: 'for (;;) {}',
    stage: { startTimeoutMs: 400 },
    cause: /was not ready within 400 ms/,
  },
  { name: 'inline: a syntax error', content: '', stage: { inline: 'return input +;' }, cause: /Unexpected token ';'/ },
  {
    name: 'inline: On Start throws',
    content: '',
    stage: { inline: { setup: 'throw new Error("no license");', code: '' } },
    cause: /no license/,
  },
];

/** Serves a stage of a file that a test may write again. */
async function serveFile(t: TestContext, content: string | null, stage: Partial<StageSpec> = {}) {
  const file = join(folderFor(t), 'model.mjs');
  if (content !== null) writeFileSync(file, content);
  const service = await serve(t, { stages: [{ id: 'model', file, ...stage }] });
  return { file, service };
}

async function shownError(service: TestService): Promise<string> {
  return until('the cause is shown for each worker', () => {
    const { workers } = service.stage('model');
    const errors = workers.map(({ error }) => error);
    return errors.length > 0 && errors.every((error) => error !== null) ? errors.join('\n') : null;
  });
}

for (const isolation of ISOLATIONS) {
  describe(`a stage that does not start (${isolation})`, () => {
    for (const { name, content, stage, cause } of CASES) {
      test(`${name}: the status and the log show the cause`, async (t) => {
        const { service } = await serveFile(t, content, { ...stage, isolation });
        // Sent before the fault is known, and after: neither has a deadline to wait for.
        const { code, error } = await service.answer(1);
        assert.equal(code, 'stage_unavailable');
        assert.equal(error?.stage, 'model');
        assert.match(error?.message ?? '', /stage model does not start: /);
        assert.match(error?.message ?? '', cause);
        assert.match(await shownError(service), cause);
        assert.equal(service.stage('model').ready, 0);
        assert.match(service.logs.map(({ message }) => message).join('\n'), cause);
        const again = await service.answer(2);
        assert.equal(again.code, 'stage_unavailable');
        assert.match(again.error?.message ?? '', cause);
      });
    }
  });
}

describe('a stage that does not start', () => {
  test('reports the error as thrown, with its cause', async (t) => {
    const how = join(folderFor(t), 'how');
    writeFileSync(how, 'throws');
    const service = await serve(t, { stages: [{ id: 'start', file: 'start', init: { how } }] });
    const { error } = await service.answer(1);
    const thrown = error?.cause as Error;
    assert.equal(thrown.message, 'weights are missing');
    assert.match(thrown.stack ?? '', /start\.js/);
    assert.equal((thrown.cause as Error).message, 'no such file: weights.bin');
  });

  test('does not affect other stages, or requests that do not reach it', async (t) => {
    const service = await serve(t, {
      stages: [
        { id: 'echo', file: 'echo' },
        { id: 'broken', file: '/nowhere/at-all.js' },
      ],
      routes: { echo: ['echo'], both: ['echo', 'broken'] },
    });
    assert.equal(await service.value('a', { entry: 'echo' }), 'a');
    const { code, error, timings } = await service.answer('a', { entry: 'both' });
    assert.equal(code, 'stage_unavailable');
    assert.equal(error?.stage, 'broken');
    assert.equal(timings.length, 1);
  });
});

describe('recovery', () => {
  test('serves when its file is repaired, without a request', async (t) => {
    const { file, service } = await serveFile(t, 'export default (x) => {', { workers: 2 });
    assert.equal((await service.answer(1)).code, 'stage_unavailable');
    writeFileSync(file, 'export default (x) => x * 2;');
    await service.ready();
    assert.equal(await service.value(21), 42);
    for (const { error, restarts } of service.stage('model').workers) {
      assert.equal(error, null);
      assert.ok(restarts > 0);
    }
  });

  test('pauses longer and longer between its tries', async (t) => {
    const folder = folderFor(t);
    const [how, starts] = [join(folder, 'how'), join(folder, 'calls')];
    writeFileSync(how, 'throws');
    const service = await serve(t, { stages: [{ id: 'start', file: 'start', init: { how, starts } }] });
    const at: number[] = [];
    while (at.length < 5) {
      await until('a further try', () => callsIn(folder).length > at.length);
      at.push(performance.now());
    }
    writeFileSync(how, 'fine');
    await service.ready();
    // The first further try is at once; then they are 100, 200, 400 ms apart, less a random quarter.
    for (const [index, shortest] of [0, 75, 150, 300].entries()) {
      const pause = (at[index + 1] as number) - (at[index] as number);
      assert.ok(pause >= shortest - POLL_MS, `pause ${index} is ${pause} ms, and should be ${shortest} ms at least`);
    }
  });

  test('refuses the waiting items, also those that the stage before held back, when it cannot start again', async (t) => {
    const folder = folderFor(t);
    const how = join(folder, 'how');
    writeFileSync(how, 'fine');
    const service = await serve(t, {
      stages: [
        { id: 'first', file: 'echo' },
        {
          id: 'last',
          inline: {
            setup: 'if (require("fs").readFileSync(init.how, "utf8") !== "fine") throw new Error("out of order");',
            code: `require("fs").appendFileSync(init.folder + "/calls", JSON.stringify(input) + "\\n");
                   if (input === 1) await new Promise(() => setInterval(() => {}, 1000));
                   return input;`,
          },
          init: { how, folder },
          capacity: 2,
        },
      ],
    });
    const { last } = await service.ready();
    const asked = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => service.ask(n));
    const waiting = (): number[] => ['first', 'last'].map((id) => service.stage(id).queue);
    await until('some wait before either stage', () => waiting()[0] && waiting().reduce((a, b) => a + b) === 7);
    await until('the first one runs', () => callsIn(folder).length === 1);
    writeFileSync(how, 'broken');
    kill9(last?.[0]);
    const answers = await Promise.all(asked.map(({ answer }) => answer));
    assert.equal(answers[0]?.code, 'worker_lost');
    for (const { code, error } of answers.slice(1)) {
      assert.equal(code, 'stage_unavailable');
      assert.match(error?.message ?? '', /out of order/);
    }
    assert.deepEqual(callsIn(folder), [1]);
    await until('the cause is shown', () => service.stage('last').workers[0]?.error === 'out of order');
    writeFileSync(how, 'fine');
    await service.ready();
    assert.equal(await service.value(9), 9);
  });

  test('serves if one of two workers starts', async (t) => {
    const folder = folderFor(t);
    const inline = {
      setup:
        'if (ctx.worker === 1 && !require("fs").existsSync(init.folder + "/both.open")) throw new Error("not me");',
      code: 'return ctx.worker;',
    };
    const service = await serve(t, { stages: [{ id: 'half', inline, init: { folder }, workers: 2 }] });
    for (let n = 0; n < 5; n += 1) assert.equal(await service.value(n), 0);
    await until('the other one shows its cause', () => service.stage('half').workers[1]?.error === 'not me');
    release(folder, 'both');
    await service.ready();
  });
});

describe('a stage whose code cannot be loaded', () => {
  const WORKERS = 3;

  interface Broken {
    readonly name: string;
    readonly stage: (folder: string) => Partial<StageSpec>;
    readonly cause: RegExp;
    readonly skip?: string | false;
  }

  const written = (folder: string, name: string, content: string): string => {
    const file = join(folder, name);
    writeFileSync(file, content);
    return file;
  };

  const BROKEN: readonly Broken[] = [
    {
      name: 'a syntax error',
      stage: (f) => ({ file: written(f, 'a.mjs', 'export default (x) => x +;') }),
      cause: /Unexpected/,
    },
    { name: 'an inline syntax error', stage: () => ({ inline: 'return x +;' }), cause: /Unexpected/ },
    {
      name: 'an export that is no modelet',
      stage: (f) => ({ file: written(f, 'b.mjs', 'export default 1;') }),
      cause: /must export/,
    },
    { name: 'no file', stage: (f) => ({ file: join(f, 'none.mjs') }), cause: /Cannot find module/ },
    {
      name: 'a missing import',
      stage: (f) => ({ file: written(f, 'c.mjs', "import 'no-such-package';") }),
      cause: /no-such-package/,
    },
    {
      name: 'a missing module',
      stage: () => ({ module: 'no-such-package' }),
      cause: /no-such-package is not installed/,
    },
    {
      name: 'a file that is no ONNX model',
      stage: (f) => ({ onnx: written(f, 'd.onnx', 'no model') }),
      cause: /d\.onnx/,
    },
    {
      name: 'a syntax error of Python',
      stage: (f) => ({ python: written(f, 'e.py', 'def predict(x):\n    return x +') }),
      cause: /invalid syntax/,
      skip: WITHOUT_PYTHON,
    },
    {
      name: 'a missing package of Python',
      stage: (f) => ({ python: written(f, 'f.py', 'import no_such_package') }),
      cause: /no_such_package/,
      skip: WITHOUT_PYTHON,
    },
    {
      name: 'a missing interpreter',
      stage: () => ({ python: 'echo', interpreter: 'python-of-nobody' }),
      cause: /no Python called python-of-nobody in PATH\. /,
    },
  ];

  /** Fails as where a service of the network is away, until the file `open` is there. */
  const away = (folder: string): StageSpec => ({
    id: 'away',
    inline: {
      setup: `if (!require("fs").existsSync(${JSON.stringify(join(folder, 'open'))}))
                throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });`,
      code: 'return input;',
    },
  });

  const errorsOf = (service: TestService, id: string): string[] =>
    service.logs.filter(({ level, stage }) => level === 'error' && stage === id).map(({ message }) => message);

  test('is reported in one message and not tried again, while a failing setup is', async (t) => {
    const folder = folderFor(t);
    const broken = BROKEN.filter(({ skip = false }) => !skip);
    const stages: StageSpec[] = broken.map(({ name, stage }) => ({ id: name, workers: WORKERS, ...stage(folder) }));
    const all = [...stages, away(folder)];
    const service = await serve(t, { stages: all, routes: Object.fromEntries(all.map(({ id }) => [id, [id]])) });
    for (const { name, cause } of broken) {
      const { code, error } = await service.answer(1, { entry: name });
      assert.equal(code, 'stage_unavailable');
      assert.match(error?.message ?? '', new RegExp(`^stage ${name} does not start: `));
      assert.match(error?.message ?? '', cause);
      assert.doesNotMatch(error?.message ?? '', /died|tried/);
    }
    await until('the other one has been tried often', () => service.stage('away').circuit === 'open');
    const refused = await service.answer(1, { entry: 'away' });
    assert.match(
      refused.error?.message ?? '',
      /^stage away does not start: connect ECONNREFUSED \(tried [56] times, next try in/,
    );
    await until('the other one is tried again', () => service.stage('away').workers[0]?.restarts === 5);
    for (const { name, cause } of broken) {
      const { workers, circuit, doesNotStart, why } = service.stage(name);
      assert.deepEqual([circuit, doesNotStart], ['closed', true]);
      assert.match(why ?? '', /^does not start: /);
      for (const { restarts, error } of workers) {
        assert.equal(restarts, 0, name);
        assert.match(error ?? '', cause);
      }
      const told = service.logs.filter(({ level, stage }) => stage === name && level !== 'info' && level !== 'debug');
      assert.deepEqual(
        told.map(({ level }) => level),
        ['error'],
        `${name}: ${told.map(({ message }) => message).join('\n')}`,
      );
      assert.match(
        told[0]?.message ?? '',
        /^does not start: .*; its workers start again when its code, or a file that it reads, changes$/,
      );
      assert.match(told[0]?.message ?? '', cause);
    }
    writeFileSync(join(folder, 'open'), '');
    await until('the other one serves by itself', () => service.stage('away').ready === 1);
  });

  for (const [how, act] of [
    ['workers are asked for', (service: TestService) => service.service.actOnStage('model', 'restart')],
    ['flows are deployed', (service: TestService, stage: StageSpec) => service.apply({ stages: [stage] })],
  ] as const) {
    test(`starts when ${how} and the missing part is there`, async (t) => {
      const requireFrom = folderFor(t);
      const stage: StageSpec = { id: 'model', module: 'comes-later', requireFrom, workers: WORKERS };
      const service = await serve(t, { stages: [stage] });
      assert.equal((await service.answer(1)).code, 'stage_unavailable');
      act(service, stage);
      const hasFailedAgain = (): boolean =>
        service.stage('model').workers.every(({ restarts, pid, state }) => restarts === 1 && !pid && state === 'error');
      await until('each is tried once more', hasFailedAgain);
      await until('and told once more', () => errorsOf(service, 'model').length === 2);
      const [modules, folder] = ['node_modules', 'aside'].map((name) => join(requireFrom, name)) as [string, string];
      mkdirSync(join(folder, 'comes-later'), { recursive: true });
      writeFileSync(join(folder, 'comes-later', 'index.js'), 'module.exports = (input) => input + 1;');
      renameSync(folder, modules);
      act(service, stage);
      await service.ready();
      assert.equal(await service.value(1), 2);
      assert.equal(errorsOf(service, 'model').length, 2);
    });
  }

  test('starts when its file appears', async (t) => {
    const { file, service } = await serveFile(t, null);
    assert.equal((await service.answer(1)).code, 'stage_unavailable');
    writeFileSync(file, 'export default (input) => input + 1;');
    await service.ready();
    assert.equal(await service.value(1), 2);
    assert.equal(errorsOf(service, 'model').length, 1);
  });

  test('keeps the serving workers if a successor does not load, and loads the repaired file', async (t) => {
    const { file, service } = await serveFile(t, 'export default () => 1;', { workers: 2 });
    const pids = await service.ready();
    writeFileSync(file, 'export default () => {');
    service.service.actOnStage('model', 'restart');
    await until('it is told', () => errorsOf(service, 'model').length === 1);
    assert.deepEqual(await service.ready(), pids);
    assert.equal(await service.value(0), 1);
    writeFileSync(file, 'export default () => 2;');
    await until('both are new', () => service.pids('model').every((pid) => !pids['model']?.includes(pid)));
    assert.equal(await service.value(0), 2);
    assert.equal(errorsOf(service, 'model').length, 1);
  });
});
