/** Code and commands of the README, the guides and the reference, run in a real Node-RED. */
import assert from 'node:assert/strict';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { batcher, endpoint, runtime, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../fixtures/node-red.ts';
import { assertPrints } from './commands.ts';
import { type CodeBlock, codeBlocks, readPage, tableRows } from './pages.ts';

let red: NodeRed;
before(async () => {
  red = await NodeRed.start();
});
after(() => red.stop());

function block(page: string, label: string): CodeBlock {
  const found = codeBlocks(readPage(page)).find((candidate) => candidate.label === label);
  assert.ok(found, `${page} has a block ${label}`);
  return found;
}

/** Saves a block of a page under its label in the user directory. */
async function save(page: string, label: string): Promise<string> {
  const path = join(red.userDir, label);
  await writeFile(path, block(page, label).text);
  return path;
}

function file(id: string, path: string, to: string, more: object = {}): FlowNode {
  return stage(id, '', to, { source: path.endsWith('.py') ? 'python' : 'file', path, ...more });
}

async function deploy(...flow: FlowNode[]): Promise<void> {
  await red.deploy([TAB, runtime(), ...flow]);
  await red.whenReady();
}

async function ask(path: string, body: unknown): Promise<unknown> {
  return (await red.post(path, body)).json();
}

describe('the README', () => {
  test('its model answers its curl line as it says', async () => {
    await save('README.md', 'sentiment.js');
    const model = file('s', 'sentiment.js', 'collector /sentiment', { workers: '2' });
    await deploy(...endpoint('/sentiment', 'b'), batcher('b', 's', { maxBatchSize: 32 }), model);
    const blocks = codeBlocks(readPage('README.md'));
    const curl = blocks.findIndex(({ text }) => text.startsWith('curl '));
    const place = { url: red.url, editor: `${red.url}/admin`, folder: red.userDir };
    await assertPrints(blocks[curl] as CodeBlock, blocks[curl + 1], place);
    assert.equal((await red.post('/sentiment', { text: 1 })).status, 422);
  });

  test('its other commands are those that other tests run', () => {
    const commands = codeBlocks(readPage('README.md')).filter(({ language }) => language === 'sh');
    // test/package runs `npm start` and installs the package; `npm test` is what runs this.
    const elsewhere = ['start', 'test', 'install'];
    assert.equal(commands.filter(({ label }) => !elsewhere.includes(label)).length, 1);
  });

  test('it has at most 250 lines', () => {
    assert.ok(readPage('README.md').split('\n').length <= 250);
  });
});

describe('the guides', () => {
  test('the function and the class of the guide about modelets', async () => {
    await save('docs/guides/modelets.md', 'count.js');
    await save('docs/guides/modelets.md', 'digits.js');
    await deploy(
      ...endpoint('/count', 'c'),
      file('c', 'count.js', 'collector /count'),
      ...endpoint('/digits', 'd'),
      file('d', 'digits.js', 'collector /digits'),
    );
    assert.equal(await ask('/count', { text: 'abcd' }), 4);
    assert.deepEqual(await ask('/digits', { pixels: [1] }), { pixels: [1] });
  });

  test('the functions and the class of the guide about Python', async () => {
    await save('docs/guides/python.md', 'lengths.py');
    await save('docs/guides/python.md', 'digits.py');
    await deploy(
      ...endpoint('/lengths', 'l'),
      file('l', 'lengths.py', 'collector /lengths', { input: 'payload.text' }),
      ...endpoint('/digits', 'd'),
      file('d', 'digits.py', 'collector /digits'),
    );
    assert.deepEqual(await ask('/lengths', { text: 'abc' }), { length: 3, upper: 'ABC' });
  });

  test('the batch of the guide about batching fails one item alone', async () => {
    await save('docs/guides/batching.md', 'sum.js');
    await deploy(
      ...endpoint('/sum', 'b'),
      batcher('b', 's', { maxBatchSize: 8 }),
      file('s', 'sum.js', 'collector /sum'),
    );
    const bodies = [{ a: 1, b: 2 }, { a: 'x' }, { a: 3, b: 4 }];
    const answers = await Promise.all(bodies.map((body) => red.post('/sum', body)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 422, 200],
    );
    assert.equal(await answers[2]?.text(), '7');
  });

  test('the generator of the guide about streaming, gathered', async () => {
    await save('docs/guides/http-and-streaming.md', 'tokens.js');
    await deploy(...endpoint('/tokens', 't'), file('t', 'tokens.js', 'collector /tokens'));
    assert.deepEqual(await ask('/tokens', { prompt: 'to the river' }), { finished: true });
  });
});

describe('the reference', () => {
  test('the worker of the wire protocol serves a stage', async () => {
    const worker = await save('docs/reference/wire-protocol.md', 'reverse-worker');
    await chmod(worker, 0o755);
    await writeFile(join(red.userDir, 'model.txt'), 'any file');
    const reverse = stage('r', '', 'collector /reverse', { source: 'python', path: 'model.txt', python: worker });
    await deploy(...endpoint('/reverse', 'b'), batcher('b', 'r', { maxBatchSize: 8 }), {
      ...reverse,
      input: 'payload.text',
      output: 'payload',
    });
    const words = ['stressed', 'live', 'drawer', 'evil'];
    const answers = await Promise.all(words.map((text) => red.post('/reverse', { text })));
    assert.deepEqual(await Promise.all(answers.map((answer) => answer.text())), ['desserts', 'evil', 'reward', 'live']);
  });

  test('every field of the snapshot is described, and nothing else is', async () => {
    const sum = stage('s', 'return 1;', 'collector /one');
    await deploy(...endpoint('/one', 's'), sum);
    assert.equal(await ask('/one', {}), 1);
    const snapshot = (await red.snapshot()) as unknown as Record<string, unknown>;
    const page = readPage('docs/reference/snapshot.md');
    const names = (head: string): Set<string> =>
      new Set(
        tableRows(page, head).flatMap(([cell = '']) => cell.split(', ').map((name) => name.replace(/^.*\]\./, ''))),
      );
    const [shown = {}] = snapshot['runtimes'] as Record<string, unknown>[];
    const keys = (list: unknown): Set<string> => new Set(Object.keys((list as object[])[0] ?? {}));
    assert.deepEqual(names('field of `runtimes[].stages`'), keys(shown['stages']));
    assert.deepEqual(names('field of `runtimes[].slowest`'), keys(shown['slowest']));
    const fields = Object.keys(shown).filter((name) => name !== 'stages');
    assert.deepEqual(names('field'), new Set(fields));
    const rest = Object.keys(snapshot).filter((name) => name !== 'runtimes');
    assert.deepEqual(names('field'), new Set(fields));
    for (const name of rest) assert.match(page, new RegExp(`^\\| \`${name}\` \\|`, 'm'));
  });

  test('every admin route is described, and every described one is there', async () => {
    const all = readPage('docs/reference/admin-routes.md')
      .split('\n')
      .flatMap((line) => /^\| `(GET|POST|DELETE) (\/modelets\/[^`?]+)/.exec(line)?.slice(1, 3).join(' ') ?? []);
    assert.deepEqual(all.toSorted(), registeredRoutes().toSorted());
  });

  test('the answer to bad input is the one of the page about errors', async () => {
    const schema = '{"type":"object","required":["a"]}';
    await deploy(...endpoint('/add', 'add'), stage('add', 'return 1;', 'collector /add', { inputSchema: schema }));
    const answer = (await ask('/add', {})) as { error: { requestId: string } };
    const blocks = codeBlocks(readPage('docs/reference/errors.md'));
    const expected = JSON.parse(blocks.find(({ language }) => language === 'json')?.text ?? '') as typeof answer;
    expected.error.requestId = answer.error.requestId;
    assert.deepEqual(answer, expected);
  });
});

interface Layer {
  readonly route?: { readonly path: string; readonly methods: Readonly<Record<string, boolean>> };
}

/** An Express app, of version 4 or 5. */
interface App {
  readonly _router?: { readonly stack: readonly Layer[] };
  readonly router?: { readonly stack: readonly Layer[] };
}

/** The routes of this package in the app that Node-RED gives to nodes. */
function registeredRoutes(): string[] {
  const { runtime } = red.red as unknown as { runtime: { httpAdmin: App } };
  const { stack } = runtime.httpAdmin._router ?? runtime.httpAdmin.router ?? { stack: [] };
  return stack.flatMap(({ route }) =>
    route && String(route.path).startsWith('/modelets/')
      ? Object.keys(route.methods).map((method) => `${method.toUpperCase()} ${route.path}`)
      : [],
  );
}
