// Shared by the commands that start Node-RED with an example: builds, prepares a user directory, and runs the process.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { current, maintained, root } from './runtimes.mjs';

export const HOST = '127.0.0.1';

/** Returns the port in PORT, by default 1880. Ends this process if the port is invalid or in use. */
export async function choosePort(command) {
  const port = Number(process.env.PORT ?? 1880);
  if (!Number.isInteger(port) || port < 1 || port > 65535)
    fail(`PORT must be a number from 1 to 65535, got ${process.env.PORT}`);
  if (!(await isFree(port)))
    fail(`port ${port} is taken on ${HOST}. Stop what uses it, or choose another: PORT=${port + 10} ${command}`);
  return port;
}

/** Builds if a source is newer than the last build. */
export function build() {
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

/**
 * Prepares a user directory inside the repository. Writes manifest and flows only once, so that the user's edits stay;
 * writes the settings at each start. `example` is the title of the first flows; `settings` are additional settings.
 */
export function prepareUserDir(userDir, { manifest, example, port, settings = {} }) {
  mkdirSync(userDir, { recursive: true });
  const file = join(userDir, 'package.json');
  if (!existsSync(file)) writeFileSync(file, `${JSON.stringify({ private: true, ...manifest }, null, 2)}\n`);
  const flows = join(userDir, 'flows.json');
  if (!existsSync(flows)) writeFileSync(flows, readFileSync(join(root, 'examples', `${example}.json`)));
  const all = {
    uiPort: port,
    uiHost: HOST,
    userDir,
    flowFile: 'flows.json',
    credentialSecret: false,
    // Keep the editor away from the endpoints' root: an editor at / doubles the cost of every HTTP-in request.
    httpAdminRoot: '/editor',
    httpNodeRoot: '/',
    telemetry: { enabled: false, updateNotification: false },
    editorTheme: { tours: false, projects: { enabled: false } },
    logging: { console: { level: 'info', metrics: false, audit: false } },
    ...settings,
  };
  writeFileSync(
    join(userDir, 'settings.cjs'),
    `// Written at each start.\nmodule.exports = ${JSON.stringify(all, null, 2)};\n`,
  );
}

/**
 * Starts Node-RED in a user directory. This process ends with Node-RED and with the same exit code. Calls `welcome`
 * when the flows have started, and `goodbye` when Node-RED is about to end or has ended, possibly twice.
 */
export function startNodeRed(userDir, { welcome, goodbye = () => {} }) {
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
  // Ctrl-C reaches Node-RED directly, as it shares the terminal. Other signals reach only this process: pass them on.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      goodbye();
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on('exit', (code, signal) => {
    goodbye();
    process.exit(code ?? (signal ? 1 : 0));
  });
  child.on('error', (error) => fail(`Node-RED could not be started: ${error.message}`));
}

/** Returns the test images of the examples: `{ image, label }`, 64 pixels and their digit. */
export function readImages() {
  return JSON.parse(readFileSync(join(root, 'assets', 'data', 'digits-test.json'), 'utf8')).images;
}

function isFree(wanted) {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(wanted, HOST, () => probe.close(() => resolve(true)));
  });
}

export function fail(message) {
  console.error(`\n${message}\n`);
  process.exit(1);
}
