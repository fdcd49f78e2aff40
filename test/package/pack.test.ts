/** The package as users get it: packed, installed into an empty user directory, loaded by a separate Node-RED. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { isAlive } from '../fixtures/alive.ts';
import { runtime, sink, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, NODE_RED_MODULE, pidsOf, type Snapshot } from '../fixtures/node-red.ts';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { until } from '../fixtures/polling.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { npm, type Packed, pack, run } from './packing.ts';
import { ARGUED, validate } from './scorecard.ts';

const PACKAGE = '@modelet/node-red-pipeline';
const QUICK_START = 'Quick start - handwritten digits';
const TYPES = Object.keys(NODE_SCHEMAS);

const require = createRequire(import.meta.url);

let folder: string;
let userDir: string;
let packed: Packed;
let tarball: string;
let files: string[];
let installWarnings: string[];
let nodeRed: ChildProcess | undefined;
let output = '';
let url: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'modelet-pack-'));
  packed = await pack(folder);
  tarball = join(folder, packed.filename);
  files = packed.files.map(({ path }) => path);
  userDir = join(folder, 'user');
  await mkdir(userDir);
  await writeFile(join(userDir, 'package.json'), '{"name":"user","private":true}');
  // As the palette manager does it.
  const install = ['install', '--no-audit', '--no-update-notifier', '--no-fund', '--omit=dev', '--engine-strict'];
  const { stderr } = await run(process.execPath, [npm, ...install, '--prefer-offline', tarball], { cwd: userDir });
  installWarnings = stderr.split('\n').filter((line) => /\bwarn\b/i.test(line));
  ({ child: nodeRed, url } = await startNodeRed(userDir));
});
after(async () => {
  if (nodeRed?.exitCode === null && nodeRed.signalCode === null) nodeRed.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true, maxRetries: 10 });
});

/** Runs a program of a development package. Fails with its output if it finds something. */
async function checkBy(program: string, ...args: string[]): Promise<void> {
  const path = join(repositoryRoot, 'node_modules', '.bin', program);
  await run(process.execPath, [path, ...args], { cwd: userDir }).catch((error: { stdout: string; stderr: string }) => {
    assert.fail(`${program}:\n${error.stdout}${error.stderr}`);
  });
}

async function startNodeRed(directory: string): Promise<{ child: ChildProcess; url: string }> {
  const settings = join(directory, 'settings.cjs');
  const content = {
    userDir: directory,
    flowFile: 'flows.json',
    uiPort: 0,
    uiHost: '127.0.0.1',
    httpAdminRoot: '/admin',
    credentialSecret: false,
    telemetry: { enabled: false },
    externalModules: { autoInstall: false, palette: { allowInstall: false } },
  };
  await writeFile(settings, `module.exports = ${JSON.stringify(content)};`);
  const red = join(dirname(require.resolve(`${NODE_RED_MODULE}/package.json`)), 'red.js');
  const child = spawn(process.execPath, [red, '-s', settings], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      output += `${line}\n`;
    });
  }
  const [, found] = await until('Node-RED is running', () => {
    if (child.exitCode !== null) throw new Error(`Node-RED ended:\n${output}`);
    return /Started flows/.test(output) && (/now running at (http:\S+)/.exec(output) ?? undefined);
  });
  return { child, url: found as string };
}

async function get(path: string, accept = 'application/json'): Promise<string> {
  const response = await fetch(`${url}${path}`, { headers: { Accept: accept, 'Accept-Language': 'en-US' } });
  assert.equal(response.status, 200, `${path}: ${response.status}`);
  return response.text();
}

async function getJson<T>(path: string): Promise<T> {
  return JSON.parse(await get(path)) as T;
}

async function deploy(flows: readonly FlowNode[]): Promise<void> {
  const response = await fetch(`${url}/flows`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2' },
    body: JSON.stringify({ flows }),
  });
  assert.equal(response.status, 200);
}

describe('package: the tarball', () => {
  test('has all files that it needs, and its documentation', () => {
    const needed = [
      'package.json',
      'README.md',
      'LICENSE',
      'NOTICE',
      'docs/README.md',
      'docs/tutorial.md',
      'docs/nodes/modelet-stage.md',
      'dist/src/index.js',
      'dist/src/index.d.ts',
      'dist/src/runtime/build-id.txt',
      'dist/src/headless/main.js',
      'assets/deploy/Containerfile',
    ];
    const entries = [
      'dist/src/programs/engine.js',
      'dist/src/gate/store/process/main.js',
      'dist/src/runtime/worker/main.js',
      'dist/src/runtime/worker/python/main.py',
    ];
    const halves = TYPES.flatMap((type) => [`dist/nodes/${type}.js`, `dist/nodes/${type}.html`]);
    const locales = ['en-US', 'zh-CN'].flatMap((language) =>
      TYPES.flatMap((type) => ['json', 'html'].map((end) => `dist/nodes/locales/${language}/${type}.${end}`)),
    );
    const examples = [`examples/${QUICK_START}.json`, 'assets/modelets/classify.js', 'assets/models/digits.json'];
    const missing = [...needed, ...entries, ...halves, ...locales, ...examples].filter((path) => !files.includes(path));
    assert.deepEqual(missing, []);
  });

  test('has no tests, sources or development files', () => {
    const unwanted = files.filter(
      (path) =>
        /(^|\/)(test|scripts|node_modules|\.node-red)\//.test(path) ||
        /^(src|nodes|icons)\//.test(path) ||
        /^docs\/.*(?<!\.md)$/.test(path) ||
        (path.endsWith('.ts') && !path.endsWith('.d.ts')) ||
        /(^|\/)(tsconfig|biome|package-lock)\.json$/.test(path),
    );
    assert.deepEqual(unwanted, []);
  });

  test('has few dependencies, and npm warns of nothing', async () => {
    const installed = await readdir(join(userDir, 'node_modules'));
    assert.ok(!installed.includes('node-red') && !installed.includes('typescript'));
    assert.deepEqual(await readdir(join(userDir, 'node_modules', '@modelet')), ['node-red-pipeline']);
    const optional = ['bullmq', 'onnxruntime-node', 'redis', 'sharp', 'swagger-ui-dist'];
    assert.deepEqual(
      optional.filter((name) => installed.includes(name)),
      [],
    );
    // Warnings about the npm configuration of the machine say nothing about the package.
    assert.deepEqual(
      installWarnings.filter((line) => !/Unknown \w+ config/.test(line)),
      [],
    );
  });

  test('is as small as the documentation says', async () => {
    const page = await readFile(join(repositoryRoot, 'docs', 'operations', 'platforms.md'), 'utf8');
    const [, packedMb, unpackedMb] = /at most ([\d.]+) MB to\s+download,\s+([\d.]+) MB\s+on disk/.exec(page) ?? [];
    assert.ok(packed.size <= Number(packedMb) * 1e6, `${packed.size} bytes, not ${packedMb} MB`);
    assert.ok(packed.unpackedSize <= Number(unpackedMb) * 1e6, `${packed.unpackedSize} bytes, not ${unpackedMb} MB`);
  });

  test('publint and attw find nothing: entries, files and types fit together, for users of ES modules', async () => {
    await checkBy('publint', '--strict', tarball);
    // `require` of this package gets its ES modules, as all versions of Node.js that it supports allow.
    await checkBy('attw', tarball, '--profile', 'esm-only');
  });

  const inCi = process.env['CI'] === 'true' && NODE_RED_MODULE === 'node-red';
  test('the scorecard of Node-RED has no finding without an argument', {
    skip: !inCi && 'runs once in CI, because it downloads node-red-dev',
  }, async (t) => {
    const target = join(userDir, 'node_modules', PACKAGE);
    const { scorecard, output: report, hasCatalogue } = await validate(target, folder, npm);
    if (!hasCatalogue) t.diagnostic('not compared with the catalogue of published nodes, which cannot be reached');
    const findings = Object.keys(scorecard).filter((point) => !scorecard[point]?.test);
    assert.deepEqual(findings.toSorted(), Object.keys(ARGUED), report);
  });

  test('can be imported', async () => {
    const code = `import { Modelet } from '${PACKAGE}'; console.log(typeof Modelet);`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], { cwd: userDir });
    assert.equal(stdout.trim(), 'function');
  });

  test('has all the types that a modelet in TypeScript needs', async () => {
    const code = `
      import { Modelet, type ModeletContext, ModeletError } from '${PACKAGE}';
      export default class Doubler extends Modelet<number, number> {
        static override readonly batch = true;
        constructor(readonly context: ModeletContext) { super(); }
        predict(inputs: readonly number[]): (number | ModeletError)[] {
          this.context.log.info(this.context.stage);
          return inputs.map((input) => (input < 0 ? new ModeletError('invalid_input', 'negative') : 2 * input));
        }
      }`;
    await writeFile(join(userDir, 'doubler.mts'), code);
    // Without skipLibCheck, a declaration that another one imports has to be there, too.
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023', '--types', ''];
    await checkBy('tsc', ...options, 'doubler.mts');
  });
});

describe('package: in Node-RED', () => {
  test('every node type is registered and enabled without an error', async () => {
    type NodeSet = { module: string; types: string[]; enabled: boolean; err?: string; user: boolean };
    const sets = (await getJson<NodeSet[]>('/nodes')).filter(({ module }) => module === PACKAGE);
    assert.deepEqual(sets.flatMap(({ types }) => types).sort(), TYPES.toSorted());
    assert.deepEqual(
      sets.filter(({ enabled, err }) => !enabled || err !== undefined),
      [],
    );
    assert.doesNotMatch(output, /Missing node modules|\[warn\] \[modelet|\[error\]/);
  });

  test('the editor gets every node\u2019s form, definition and help', async () => {
    const html = await get('/nodes', 'text/html');
    for (const type of TYPES) {
      assert.ok(html.includes(`data-template-name="${type}"`), `form of ${type}`);
      assert.ok(html.includes(`data-help-name="${type}"`), `help of ${type}`);
      assert.ok(html.includes(`registerType('${type}'`), `definition of ${type}`);
    }
  });

  test('Node-RED serves every text of the catalogs', async () => {
    type Texts = Record<string, Record<string, { palette: string }>>;
    const english = await getJson<Texts>('/nodes/messages?lng=en-US');
    const chinese = await getJson<Texts>('/nodes/messages?lng=zh-CN');
    for (const type of TYPES) {
      const [label, translated] = [english, chinese].map((texts) => texts[`${PACKAGE}/${type}`]?.[type]?.palette);
      assert.match(label ?? '', /^[a-z ]+$/, type);
      assert.match(translated ?? '', /\p{Script=Han}/u, type);
    }
  });

  test('Node-RED serves every icon that a node names', async () => {
    const { [PACKAGE]: icons = [] } = await getJson<Record<string, string[]>>('/icons');
    const html = await get('/nodes', 'text/html');
    const named = [...html.matchAll(/icon: '(modelet-[^']+)'/g)].map(([, name]) => name as string);
    assert.ok(named.length > 0);
    for (const name of named) {
      assert.ok(icons.includes(name), name);
      assert.match(await get(`/icons/${PACKAGE}/${name}`, 'image/svg+xml'), /<svg/);
    }
  });

  test('Node-RED serves every script and style that the forms load', async () => {
    const html = await get('/nodes', 'text/html');
    const loaded = [...html.matchAll(/(?:src|href)="(resources\/@modelet\/[^"]+)"/g)].map(([, path]) => path as string);
    assert.ok(loaded.some((path) => path.endsWith('.js')) && loaded.some((path) => path.endsWith('.css')));
    for (const path of new Set(loaded)) assert.ok((await get(`/${path}`, '*/*')).length > 0, path);
  });

  test('the editor gets the sidebar, its scripts, styles and texts', async () => {
    const html = await get('/plugins', 'text/html');
    assert.ok(html.includes("registerPlugin('modelet-sidebar'"));
    const paths = [...html.matchAll(/(?:src|href)="(resources\/@modelet\/[^"]+)"/g)].map(([, path]) => path as string);
    assert.ok(paths.length > 0);
    for (const path of paths) {
      const content = await get(`/${path}`, '*/*');
      for (const [, imported] of content.matchAll(/ from '\.\/([^']+)'/g)) {
        const beside = new URL(imported as string, `http://localhost/${path}`).pathname;
        assert.ok((await get(beside, '*/*')).length > 0, beside);
      }
    }
    const catalogs = await getJson<Record<string, Record<string, object>>>('/plugins/messages?lng=en-US');
    assert.ok(catalogs[`${PACKAGE}/modelet-sidebar`]?.['modelet-sidebar']);
  });

  test('the import menu offers every example, and nothing that is not a flow', async () => {
    assert.ok((await getJson<string[]>('/library/examples/flows')).includes(PACKAGE));
    const offered = await getJson<({ fn: string } | string)[]>(`/library/examples/flows/${PACKAGE}`);
    const titles = offered.map((entry) => (typeof entry === 'string' ? `folder ${entry}` : entry.fn));
    const shipped = files.flatMap((path) => /^examples\/([^/]+)\.json$/.exec(path)?.[1] ?? []);
    assert.deepEqual(titles.toSorted(), shipped.toSorted());
    for (const title of titles) {
      const flow = await getJson<FlowNode[]>(`/library/examples/flows/${PACKAGE}/${encodeURIComponent(title)}`);
      assert.equal(flow.filter(({ type }) => type === 'tab').length, 1, title);
    }
  });
});

describe('package: the command', () => {
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` };

  async function deployed(name: string): Promise<string> {
    return readFile(join(userDir, 'node_modules', PACKAGE, 'assets', 'deploy', name), 'utf8');
  }

  before(async () => {
    const flows = await readFile(join(repositoryRoot, 'examples', `${QUICK_START}.json`), 'utf8');
    await writeFile(join(userDir, 'headless.json'), flows);
  });

  test('npx runs it', async () => {
    // It exits with 1, because the page of the quick start needs Node-RED.
    const { stdout } = await run(
      process.execPath,
      [npm, 'exec', '--offline', '--', PACKAGE, 'check', 'headless.json'],
      { cwd: userDir, env },
    ).catch((failed: { readonly stdout: string }) => failed);
    assert.match(stdout, /POST +\/predict\/digits +digits +normalise > classify/);
  });

  test('a worker host names the packages of a broker, which are not installed', async () => {
    const args = ['worker', '--broker', 'redis://127.0.0.1:1', '--runtime', 'default', '--code', 'local'];
    await assert.rejects(
      run(process.execPath, [npm, 'exec', '--offline', '--', PACKAGE, ...args], { cwd: userDir, env }),
      {
        code: 1,
        stdout: /does not start: a broker needs more packages: run `npm install bullmq redis`/,
      },
    );
  });

  test('the systemd unit and the Containerfile start it', async () => {
    const unit = /^ExecStart=(.+)$/m.exec(await deployed('modelet.service'))?.[1] ?? '';
    const image = await deployed('Containerfile');
    const words = ['ENTRYPOINT', 'CMD'].flatMap((line) => {
      return JSON.parse(new RegExp(`^${line} (.+)$`, 'm').exec(image)?.[1] ?? '[]') as string[];
    });
    for (const written of [unit, words.join(' ')]) {
      const [command = '', ...args] = written
        .replace(/(?:127\.0\.0\.1|0\.0\.0\.0):8080/, '127.0.0.1:0')
        .replace('/srv/modelet', userDir)
        .replace('flows.json', 'headless.json')
        .split(' ');
      const child = spawn(command, args, { cwd: userDir, env, stdio: ['ignore', 'pipe', 'inherit'] });
      let log = '';
      child.stdout.on('data', (text) => {
        log += text;
      });
      const ended = once(child, 'close');
      const at = await until('it listens', () => {
        if (child.exitCode !== null) throw new Error(`it ended: ${log}`);
        return /"url":"(http:[^"]+)"/.exec(log)?.[1];
      });
      assert.equal((await fetch(`${at}/health/live`)).status, 200);
      child.kill('SIGTERM');
      assert.deepEqual(await ended, [0, null], written);
    }
  });
});

test('package: without the packages of a broker, a remote stage names them, and the others run', async () => {
  await deploy([
    ...[TAB, runtime('runtime', { broker: 'broker' })],
    { id: 'broker', type: 'modelet-broker', name: '', url: 'redis://127.0.0.1:1', prefix: 'modelet', tls: '' },
    stage('remote', 'return input;', 'seen', { placement: 'remote' }),
    stage('local', 'return input;', 'seen'),
    sink('seen'),
  ]);
  const stages = await until('the local stage is ready', async () => {
    const { runtimes } = await getJson<Snapshot>('/modelets/snapshot');
    const found = new Map(runtimes.flatMap((one) => one.stages).map((one) => [one.id, one]));
    return found.get('local')?.ready === 1 && found;
  });
  assert.match(String(stages.get('remote')?.workers[0]?.error), /run `npm install bullmq redis`/);
});

describe('package: the quick start', () => {
  let snapshot: Snapshot;

  test('recognizes a digit when it is imported from the examples and deployed', async () => {
    await deploy(await getJson(`/library/examples/flows/${PACKAGE}/${encodeURIComponent(QUICK_START)}`));
    const { images } = JSON.parse(await readFile(join(repositoryRoot, 'assets/data/digits-test.json'), 'utf8')) as {
      images: { image: number[]; label: number }[];
    };
    const image = images.find(({ label }) => label === 4)?.image;
    // The endpoint is there once the flows have started.
    const response = await until('the endpoint is there', async () => {
      const answer = await fetch(new URL('/predict/digits', url), {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ image }),
      });
      return answer.status !== 404 && answer;
    });
    assert.equal(response.status, 200);
    assert.equal(((await response.json()) as { digit: number }).digit, 4);
    snapshot = await until('all workers have reported', async () => {
      const found = await getJson<Snapshot>('/modelets/snapshot');
      return pidsOf(found).length === 5 && found;
    });
  });

  test('a SIGTERM ends Node-RED and every process it had started', async () => {
    const pids = pidsOf(snapshot);
    assert.ok(pids.every(isAlive));
    const ended = once(nodeRed as ChildProcess, 'exit');
    nodeRed?.kill('SIGTERM');
    await ended;
    await until('no process is left', () => !pids.some(isAlive));
  });
});
