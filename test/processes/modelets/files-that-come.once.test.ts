/** Files beside a modelet's own that come later, change, or are only pointers of Git LFS. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { type Drawing, writeModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const POINTER = 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n';

const JSON_BODY = { 'Content-Type': 'application/json' };

interface Case {
  readonly name: string;
  /** Writes what is there at first, and returns the stage. */
  prepare(folder: string): Partial<StageSpec>;
  /** The file that comes later, its content, and a later one. */
  readonly file: string;
  readonly content: string | Buffer;
  readonly later: string | Buffer;
  readonly input?: unknown;
  /** The answers to the input, or to 1, with both contents. */
  readonly answers: readonly [unknown, unknown];
  readonly skip?: string | false;
}

const IDENTITY: Drawing = {
  inputs: [{ name: 'x', shape: ['n', 2] }],
  outputs: [{ name: 'y', shape: ['n', 2] }],
  nodes: [{ operator: 'Identity', inputs: ['x'], output: 'y' }],
};

const floats = (...values: number[]): Buffer => Buffer.from(Float32Array.from(values).buffer);

function written(folder: string, name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const CASES: readonly Case[] = [
  {
    name: 'the values of an ONNX model',
    prepare: (folder) => ({
      onnx: writeModel(folder, 'model', {
        inputs: [{ name: 'x', shape: ['n', 1] }],
        outputs: [{ name: 'y', shape: ['n', 1] }],
        nodes: [{ operator: 'Add', inputs: ['x', 'w'], output: 'y' }],
        constants: [{ name: 'w', dims: [1], values: [], file: 'model.onnx.data' }],
      }),
    }),
    input: [1],
    file: 'model.onnx.data',
    content: floats(1),
    later: floats(2),
    answers: [[2], [3]],
  },
  {
    name: 'the labels of an ONNX model',
    prepare: (folder) => ({
      onnx: writeModel(folder, 'model', IDENTITY),
      init: { labels: 'labels.json' },
    }),
    input: [1, 0],
    file: 'labels.json',
    content: '["a", "b"]',
    later: '["c", "d"]',
    answers: ['a', 'c'],
  },
  {
    name: 'a module that a modelet imports',
    prepare: (folder) => ({
      file: written(folder, 'model.mjs', "import { n } from './n.mjs';\nexport default (input) => input + n;"),
    }),
    file: 'n.mjs',
    content: 'export const n = 1;',
    later: 'export const n = 2;',
    answers: [2, 3],
  },
  {
    name: 'a module that a modelet requires',
    prepare: (folder) => ({
      file: written(folder, 'model.cjs', "const { n } = require('./n');\nmodule.exports = (input) => input + n;"),
    }),
    file: 'n.js',
    content: 'exports.n = 1;',
    later: 'exports.n = 2;',
    answers: [2, 3],
  },
  {
    name: 'a file that a modelet reads as it loads',
    prepare: (folder) => ({
      file: written(
        folder,
        'model.mjs',
        `import { readFileSync } from 'node:fs';
         const n = Number(readFileSync(new URL('./n.txt', import.meta.url)));
         export default (input) => input + n;`,
      ),
    }),
    file: 'n.txt',
    content: '1',
    later: '2',
    answers: [2, 3],
  },
  {
    name: 'a file that a modelet in Python reads as it loads',
    prepare: (folder) => ({
      python: written(
        folder,
        'model.py',
        'import pathlib\nn = int((pathlib.Path(__file__).parent / "n.txt").read_text())\ndef predict(x):\n    return x + n\n',
      ),
    }),
    file: 'n.txt',
    content: '1',
    later: '2',
    answers: [2, 3],
    skip: WITHOUT_PYTHON,
  },
  {
    name: 'a module that a modelet in Python imports',
    prepare: (folder) => ({
      python: written(folder, 'model.py', 'from helper_n import n\ndef predict(x):\n    return x + n\n'),
    }),
    file: 'helper_n.py',
    content: 'n = 1\n',
    later: 'n = 20\n',
    answers: [2, 21],
    skip: WITHOUT_PYTHON,
  },
];

describe('files that a modelet needs', () => {
  for (const watch of [false, true]) {
    test(`are tried again when they come, ${watch ? 'and seen when they change, with' : 'without'} watch`, async (t) => {
      const top = folderFor(t);
      const cases = CASES.filter(({ skip = false }) => !skip).map((one, index) => {
        const folder = join(top, String(index));
        mkdirSync(folder);
        const spec: StageSpec = { id: one.name, workers: 2, watch, ...one.prepare(folder) };
        return { ...one, path: join(folder, one.file), spec };
      });
      const service = await serve(t, routed(cases.map(({ spec }) => spec)));
      for (const { name, file } of cases) {
        const { code, error } = await service.answer(1, { entry: name });
        assert.equal(code, 'stage_unavailable', name);
        assert.match(error?.message ?? '', / does not start: /);
        assert.match(error?.message ?? '', new RegExp(file.replace(/\.(py|js)$/, '')));
      }
      for (const { path, content } of cases) writeFileSync(path, content);
      for (const { name, input, answers } of cases) await answered(service, name, input, answers[0]);
      if (!watch) return;
      for (const { path, later } of cases) writeFileSync(path, later);
      for (const { name, input, answers } of cases) await answered(service, name, input, answers[1]);
    });
  }

  for (const isolation of ISOLATIONS) {
    test(`are those that it reads, in a ${isolation}, and none that it writes`, async (t) => {
      const folder = folderFor(t);
      const file = written(
        folder,
        'model.mjs',
        `import { appendFileSync, readFileSync } from 'node:fs';
         import { readFile } from 'node:fs/promises';
         const place = (name) => new URL(name, import.meta.url);
         export default class {
           async setup() {
             appendFileSync(place('starts'), '.');
             this.starts = readFileSync(place('starts'), 'utf8').length;
             this.n = Number(await readFile(place('n'), 'utf8'));
           }
           predict() { return [this.starts, this.n]; }
         }`,
      );
      written(folder, 'n', '1');
      const service = await serve(t, { stages: [{ id: 'model', file, isolation, watch: true }] });
      assert.deepEqual(await service.value(0), [1, 1]);
      written(folder, 'n', '2');
      await answered(service, 'in', 0, [2, 2]);
      assert.equal(service.logs.filter(({ message }) => message === 'n was saved: new workers start').length, 1);
    });
  }

  test('are tried again when they come, by modelet serve, whose log advises nothing that it lacks', async (t) => {
    const folder = folderFor(t);
    const path = written(folder, 'model.mjs', "import { n } from './n.mjs';\nexport default (input) => input + n;");
    const flow = [
      TAB,
      runtime(),
      httpIn('in', '/ask', 'model'),
      stage('model', '', 'out', { source: 'file', path }),
      httpOut('out'),
    ];
    const { url, log } = await serveFlows(t, written(folder, 'flows.json', JSON.stringify(flow)));
    const ask = async (): Promise<string> => {
      const response = await fetch(`${url}/ask`, { method: 'POST', body: '1', headers: JSON_BODY });
      return `${response.status} ${await response.text()}`;
    };
    assert.match(await ask(), /^503 /);
    const why = (): ReturnType<typeof log> => log().filter(({ message }) => String(message).includes('does not start'));
    await until('the log says why', () => why().length > 0);
    const [told] = why();
    assert.match(
      String(told?.['message']),
      /n\.mjs.*; its workers start again when its code, or a file that it reads, changes$/,
    );
    written(folder, 'n.mjs', 'export const n = 1;');
    await until('it answers', async () => (await ask()) === '200 2');
  });

  test('are named with the command that fetches them, if they are pointers of Git LFS', async (t) => {
    const top = folderFor(t);
    const folder = (name: string): string => {
      mkdirSync(join(top, name));
      return join(top, name);
    };
    const [model, labels, script, plain] = ['model', 'labels', 'script', 'plain'].map(folder) as [
      string,
      string,
      string,
      string,
    ];
    const python =
      'import json, pathlib\nclass Model:\n    def setup(self):\n        json.loads((pathlib.Path(__file__).parent / "weights.json").read_text())\n    def predict(self, x):\n        return x\n';
    written(labels, 'labels.json', POINTER);
    const places: Readonly<Record<string, string>> = {
      model: written(model, 'model.onnx', POINTER),
      labels: written(labels, 'labels.json', POINTER),
      ...(WITHOUT_PYTHON ? {} : { script: written(script, 'weights.json', POINTER) }),
    };
    const words = written(plain, 'words.txt', POINTER);
    const stages: StageSpec[] = [
      { id: 'model', onnx: join(model, 'model.onnx') },
      { id: 'labels', onnx: writeModel(labels, 'model', IDENTITY), init: { labels: 'labels.json' } },
      ...(WITHOUT_PYTHON ? [] : [{ id: 'script', python: written(script, 'model.py', python) }]),
      {
        id: 'plain',
        inline: { setup: `return require('node:fs').readFileSync(${JSON.stringify(words)});`, code: 'return 1;' },
      },
    ];
    const service = await serve(t, routed(stages));
    for (const [entry, path] of Object.entries(places)) {
      const { error } = await service.answer([1, 0], { entry });
      assert.ok(error?.message.includes(pointer(path)), error?.message);
    }
    assert.equal(await service.value(0, { entry: 'plain' }), 1);
    await until('what loads with a pointer warns', () =>
      service.logs.some(({ level, message }) => level === 'warn' && message === pointer(words)),
    );
    writeModel(model, 'model', IDENTITY);
    await answered(service, 'model', [1, 0], [1, 0]);
  });
});

function pointer(path: string): string {
  return `${path} is a pointer of Git LFS, not the file itself: run "git lfs pull" in ${dirname(path)}`;
}

function routed(stages: readonly StageSpec[]): Parameters<typeof serve>[1] {
  return { stages, routes: Object.fromEntries(stages.map(({ id }) => [id, [id]])) };
}

/** Resolves when the stage gives this answer, or this label. */
async function answered(service: TestService, entry: string, input: unknown, wanted: unknown): Promise<void> {
  let last: unknown = null;
  await until(`${entry} answers ${JSON.stringify(wanted)}`, async () => {
    const { value, error } = await service.answer(input ?? 1, { entry });
    last = error?.message ?? (value as { label?: unknown } | undefined)?.label ?? value;
    return JSON.stringify(last) === JSON.stringify(wanted);
  }).catch((thrown: Error) => assert.fail(`${thrown.message}: ${JSON.stringify(last)}`));
}
