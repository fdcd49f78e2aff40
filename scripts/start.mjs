// One command from a fresh clone to a running pipeline: installs, builds, starts Node-RED with the quick-start flow.
//   npm start            editor and endpoint on 127.0.0.1:1880
//   PORT=1890 npm start  on another port
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { install } from './install.mjs';
import { current, maintained, root } from './runtimes.mjs';

const HOST = '127.0.0.1';
const port = Number(process.env.PORT ?? 1880);
const userDir = join(root, '.node-red');
const quickStart = join(root, 'examples', 'Quick start - handwritten digits.json');

if (!Number.isInteger(port) || port < 1 || port > 65535)
  fail(`PORT must be a number from 1 to 65535, got ${process.env.PORT}`);
if (!(await isFree(port)))
  fail(`port ${port} is taken on ${HOST}. Stop what uses it, or choose another: PORT=${port + 10} npm start`);

install();
build();
prepareUserDir();
startNodeRed();

/** Builds if a source is newer than the last build. */
function build() {
  const stamp = join(root, 'dist', 'src', 'index.js');
  const sources = ['src', 'nodes', 'icons', 'scripts'].map((folder) => newest(join(root, folder)));
  if (existsSync(stamp) && statSync(stamp).mtimeMs > Math.max(...sources)) return;
  console.log('Building ...');
  const result = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { cwd: root, stdio: 'inherit' });
  if (result.status !== 0) fail('the build failed; its messages are above');
}

function newest(path) {
  const stats = statSync(path);
  if (!stats.isDirectory()) return stats.mtimeMs;
  return Math.max(0, ...readdirSync(path).map((name) => newest(join(path, name))));
}

/** A user directory inside the repository, with this package linked into it. What the user edits there stays. */
function prepareUserDir() {
  const link = join(userDir, 'node_modules', '@modelet', 'node-red-pipeline');
  mkdirSync(dirname(link), { recursive: true });
  if (!existsSync(link)) symlinkSync(root, link, 'junction');
  const manifest = join(userDir, 'package.json');
  if (!existsSync(manifest)) {
    const dependencies = { '@modelet/node-red-pipeline': 'file:..' };
    writeFileSync(manifest, `${JSON.stringify({ name: 'quick-start', private: true, dependencies }, null, 2)}\n`);
  }
  const flows = join(userDir, 'flows.json');
  if (!existsSync(flows)) writeFileSync(flows, readFileSync(quickStart));
  writeFileSync(
    join(userDir, 'settings.cjs'),
    `// Written by npm start at each start.
module.exports = {
  uiPort: ${port},
  uiHost: '${HOST}',
  userDir: ${JSON.stringify(userDir)},
  flowFile: 'flows.json',
  credentialSecret: false,
  // Apart from the endpoints' root: an editor at / doubles the cost of every HTTP-in request.
  httpAdminRoot: '/editor',
  httpNodeRoot: '/',
  telemetry: { enabled: false, updateNotification: false },
  editorTheme: { tours: false, projects: { enabled: false } },
  logging: { console: { level: 'info', metrics: false, audit: false } },
};
`,
  );
}

function startNodeRed() {
  const newer = current();
  const pair = newer ?? maintained();
  if (!newer)
    console.log(
      `Node 24 could not be installed and this is Node ${process.versions.node}: starting Node-RED 4.1 instead of 5.`,
    );
  const red = join(dirname(createRequire(import.meta.url).resolve(`${pair.module}/package.json`)), 'red.js');
  const child = spawn(pair.node, [red, '-s', join(userDir, 'settings.cjs')], {
    cwd: userDir,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let welcomed = false;
  let seen = '';
  child.stdout.on('data', (chunk) => {
    process.stdout.write(chunk);
    if (welcomed) return;
    seen = (seen + chunk).slice(-4000);
    if (!seen.includes('Started flows')) return;
    welcomed = true;
    welcome();
  });
  // Ctrl-C reaches Node-RED itself, as it is in the same terminal; a signal to this process alone is passed on.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on('exit', (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
  child.on('error', (error) => fail(`Node-RED could not be started: ${error.message}`));
}

function welcome() {
  const endpoint = `http://${HOST}:${port}/predict/digits`;
  const { images } = JSON.parse(readFileSync(join(root, 'examples', 'data', 'digits-test.json'), 'utf8'));
  const { image } = images.find(({ label }) => label === 7);
  console.log(`
  Editor     http://${HOST}:${port}/editor
  Endpoint   POST ${endpoint}
  Try it     curl -s ${endpoint} -H 'Content-Type: application/json' -d '{"image":[${image}]}'

  Ctrl-C ends it. Your edits are kept in ${userDir}.
`);
}

function isFree(wanted) {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(wanted, HOST, () => probe.close(() => resolve(true)));
  });
}

function fail(message) {
  console.error(`\n${message}\n`);
  process.exit(1);
}
