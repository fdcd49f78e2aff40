/**
 * Clients of others before endpoints: openai, tritonclient, requests and httpx, before the examples as they are shipped
 * and before endpoints of the test's own; and the programs of the guide about clients. Only the long form runs them:
 * `npm run recipes` installs the libraries into `.recipes`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { copyFile, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { streamOut } from '../fixtures/drawn.ts';
import { endpoint, httpIn, keysNode, runtime, stage, TAB } from '../fixtures/flow.ts';
import { MockGateway } from '../fixtures/mock-gateway.ts';
import { type FlowNode, useNodeRed } from '../fixtures/node-red.ts';
import { PATIENCE_MS, until } from '../fixtures/polling.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { PACKAGES, withoutPackages } from './packages.ts';
import { codeBlocks, readPage, tableRows } from './pages.ts';

const PAGE = 'docs/guides/calling.md';
const PROGRAMS = join(repositoryRoot, 'test', 'docs', 'clients');
const EXAMPLES = [
  'Quick start - handwritten digits',
  'Errors to the catch output',
  'Tokens as server-sent events',
  'Digits by ONNX',
  'Chat completions of a remote model',
] as const;
const KEYS = [
  { name: 'app', key: 'key-of-the-client-for-tests' },
  { name: 'single', key: 'key-of-one-request-at-a-time', concurrent: 1 },
];

const blocks = codeBlocks(readPage(PAGE));
/** The programs of the page by the names of their files, and what each prints. */
const shown = blocks.flatMap(({ label, text }, index) =>
  /\.(py|mjs)$/.test(label) ? [{ file: label, text, output: blocks[index + 1] }] : [],
);

test('the programs of the page have their output below them', () => {
  assert.ok(shown.length >= 5);
  for (const { file, output } of shown) assert.equal(output?.label, 'output', file);
});

test('the versions of the page are those that are installed', () => {
  const lists = join(repositoryRoot, 'test', 'docs', 'recipes');
  const { dependencies } = JSON.parse(readFileSync(join(lists, 'package.json'), 'utf8')) as { dependencies: object };
  const wanted = new Set(readFileSync(join(lists, 'requirements.txt'), 'utf8').split('\n'));
  for (const [library, version] of Object.entries(dependencies)) wanted.add(`${library}==${version}`);
  const rows = tableRows(readPage(PAGE), 'library | version');
  assert.equal(rows.length, 6);
  for (const [library, versions = ''] of rows) {
    for (const [version] of versions.matchAll(/[\d.]+/g)) assert.ok(wanted.has(`${library}==${version}`), library);
  }
});

/** Says as many words as the client asks for, at most. */
const TALK = `
  const text = input.messages.at(-1).content;
  if (text === 'fail') throw new Error('failure ' + (globalThis.failures = (globalThis.failures ?? 0) + 1));
  if (text === 'refuse') throw Object.assign(new Error('no thanks'), { code: 'invalid_input' });
  return (async function* () {
    let made = 0;
    try {
      while (made < input.max_tokens) {
        if (text === 'break' && made === 2) throw new Error('the model broke');
        made += 1;
        yield 'wörd' + made + ' ';
      }
      const usage = { prompt_tokens: 1, completion_tokens: made, total_tokens: made + 1 };
      return { finish_reason: text === 'cut' ? 'length' : 'stop', usage };
    } finally {
      if (made < input.max_tokens) node.log('stopped before word ' + input.max_tokens);
    }
  })();`;
/** Late requests hold the only worker until no client waits for them. */
const LATE = `
  const { signal } = ctx;
  if (input.late) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  return input;`;
const EMBED = blocks.find(({ label }) => label === 'embeddings')?.text ?? '';
const LENGTH = blocks.find(({ label }) => label === 'length')?.text ?? '';
const MATRIX = blocks.find(({ label }) => label === 'matrix')?.text ?? '';
/** A model of Triton's examples: sums and differences, of texts too. */
const SIMPLE = `const { INPUT0: a, INPUT1: b } = input;
const isText = a.type === 'string';
const of = (act) => {
  const data = Array.from(a.data, (value, at) => act(Number(value), Number(b.data[at])));
  return { ...a, data: isText ? data.map(String) : Int32Array.from(data) };
};
return { OUTPUT0: of((x, y) => x + y), OUTPUT1: of((x, y) => x - y) };`;
/** Another: adds up the numbers of a sequence. */
const SEQUENCE = `ctx.state.sum = (ctx.state.sum ?? 0) + input.INPUT.data[0];
return { OUTPUT: { ...input.INPUT, data: Int32Array.of(ctx.state.sum) } };`;
const IMAGE = 'return { ...input, SIZE: input.INPUT0.data.map((element) => element.length) };';
/** Words without end, and the log says when their client is gone. */
const WORDS = `return (async function* () {
  let made = 0;
  try {
    for (;;) {
      made += 1;
      yield 'word ' + made;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  } finally {
    node.log('closed words of ' + input.of + '.');
  }
})();`;
const LINES = `return (async function* () { yield 1; yield { two: 2 }; throw new Error('no third'); })();`;

/** Endpoints of the test's own: with a key, in a runtime that is a KServe v2 server too, and without. */
function ownFlow(): FlowNode[] {
  const keyed = { runtime: 'keyed' };
  return [
    TAB,
    runtime('keyed', { keys: 'keys', v2Path: '/own' }),
    keysNode('keys', KEYS),
    httpIn('in chat', '/v1/chat/completions', 'talk'),
    stage('talk', TALK, 'chat', { ...keyed, workers: '2' }),
    streamOut('chat', { format: 'openai' }),
    ...endpoint('/v1/embeddings', 'lengths'),
    stage('lengths', EMBED.replace('text.length / 8', 'text.length + 0.5'), 'collector /v1/embeddings', keyed),
    ...endpoint('/echo', 'echo'),
    stage('echo', LATE, 'collector /echo', { ...keyed, isolation: 'thread' }),
    ...endpoint('/keyed', 'keyed same'),
    stage('keyed same', 'return input;', 'collector /keyed', keyed),
    runtime('triton', { v2Path: '/examples' }),
    ...[
      ['simple', SIMPLE],
      ['simple_string', SIMPLE],
      ['image', IMAGE],
    ].flatMap(([name = '', code = '']) => [
      ...endpoint(`/${name}`, name),
      stage(name, code, `collector /${name}`, { runtime: 'triton' }),
    ]),
    ...endpoint('/simple_sequence', 'simple_sequence'),
    stage('simple_sequence', SEQUENCE, 'collector /simple_sequence', {
      runtime: 'triton',
      workers: '2',
      keyBy: 'req.headers["x-session"]',
    }),
    runtime(),
    ...endpoint('/same', 'same'),
    stage('same', 'return input;', 'collector /same'),
    ...endpoint('/vectors/embeddings', 'vectors'),
    stage('vectors', EMBED, 'collector /vectors/embeddings'),
    ...endpoint('/matrix', 'matrix'),
    stage('matrix', MATRIX, 'collector /matrix'),
    ...endpoint('/length', 'length'),
    stage('length', LENGTH, 'collector /length', { maxRows: '1024' }),
    ...endpoint('/endless', 'endless'),
    stage('endless', 'await new Promise(() => {});', 'collector /endless'),
    httpIn('in lines', '/lines', 'lines'),
    stage('lines', LINES, 'lines out'),
    streamOut('lines out', { format: 'jsonl' }),
    httpIn('in words', '/words', 'words'),
    // One worker, for one stream: the next begins only if the one before has freed it.
    stage('words', WORDS, 'words out', { workers: '1' }),
    streamOut('words out', { format: 'jsonl' }),
  ];
}

/** The examples, with the address of the mock gateway, and a KServe v2 path for the runtime of the ONNX model. */
function examples(gateway: string): FlowNode[] {
  return EXAMPLES.flatMap((name) => {
    const text = readFileSync(join(repositoryRoot, 'examples', `${name}.json`), 'utf8');
    const flow = JSON.parse(text.replaceAll('http://127.0.0.1:8000/', `${gateway}/`)) as FlowNode[];
    if (name !== 'Digits by ONNX') return flow;
    return flow.map((node) => (node.type === 'modelet-runtime' ? { ...node, v2Path: '/' } : node));
  });
}

/** A page has no spaces at the ends of its lines. */
function withoutEnds(text: string): string {
  return text.replace(/ +$/gm, '').trim();
}

if (process.env['TEST_FULL'] === '1') {
  describe('a client', { skip: withoutPackages() }, () => {
    const red = useNodeRed({
      prepare: async (red) => {
        gateway = await MockGateway.start({ 'token-ms': 1 });
        folder = await mkdtemp(join(tmpdir(), 'modelet-clients-'));
        await symlink(join(PACKAGES, 'node_modules'), join(folder, 'node_modules'));
        await red.deployReady([...ownFlow(), ...examples(gateway.url)]);
      },
    });
    let gateway: MockGateway;
    let folder: string;
    after(async () => {
      await gateway.stop();
      await rm(folder, { recursive: true });
    });

    /** Runs a program of the folder. Returns what it prints. */
    async function run(file: string): Promise<string> {
      const command = file.endsWith('.py') ? join(PACKAGES, 'venv', 'bin', 'python') : process.execPath;
      // Without the variable of this runner, the program's own tests report as text. No proxy is asked.
      const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
      const digits = join(repositoryRoot, 'assets', 'data', 'digits-test.json');
      const env = { ...inherited, ENDPOINTS: red.url, DIGITS: digits, NO_PROXY: '127.0.0.1' };
      const child = spawn(command, [join(folder, file)], { env, cwd: folder, timeout: PATIENCE_MS });
      const printed = { stdout: '', stderr: '' };
      for (const name of ['stdout', 'stderr'] as const) {
        child[name].setEncoding('utf8').on('data', (text) => {
          printed[name] += text;
        });
      }
      const [code, signal] = await once(child, 'close');
      assert.equal(code ?? signal, 0, `${file} ends with ${code ?? signal}:\n${printed.stdout}\n${printed.stderr}`);
      return printed.stdout;
    }

    const checked: readonly (readonly [library: string, file: string])[] = [
      ['openai of npm', 'openai-client.mjs'],
      ['openai of PyPI', 'test_openai.py'],
      ['tritonclient', 'test_triton.py'],
      ["the example clients' calls of Triton", 'test_triton_examples.py'],
      ["KServe's SDK", 'test_kserve.py'],
      ['requests and httpx', 'test_http.py'],
    ];
    for (const [library, file] of checked) {
      test(`${library}: every answer is the expected one`, async () => {
        await copyFile(join(PROGRAMS, file), join(folder, file));
        await run(file);
      });
    }

    test('the endpoints that clients called are compiled', async () => {
      const { endpoints } = await red.snapshot();
      const paths = [
        '/v1/chat/completions',
        '/examples/v1/chat/completions',
        '/echo',
        '/tokens',
        '/same',
        '/lines',
        '/words',
      ];
      for (const path of paths) assert.equal(endpoints.find((one) => one.path === path)?.reason, null, path);
    });

    test('the generators whose clients left were closed', async () => {
      const stopped = [/stopped before word 1000000/, /stopped before word 2000000/, /stopped after \d+ of 1000 words/];
      const left = ['requests', 'httpx', 'httpx with asyncio', 'httpx cancelled'];
      for (const client of left) {
        const line = new RegExp(`closed words of ${client}\\.`);
        await until(
          `each stream of ${client} is closed`,
          () => red.logs.filter((entry) => line.test(entry)).length === 5,
        );
      }
      for (const line of stopped) await until(`the log has ${line}`, () => red.logs.some((entry) => line.test(entry)));
    });

    for (const { file, text, output } of shown) {
      test(`${file} of the page prints what the page says`, async () => {
        await writeFile(join(folder, file), text.replaceAll('127.0.0.1:1880', new URL(red.url).host));
        assert.equal(withoutEnds(await run(file)), withoutEnds(output?.text ?? ''));
      });
    }
  });
}
