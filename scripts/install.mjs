// Installs the packages where that has not been done: the README's commands work on a fresh clone.
import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtimes.mjs';

/** Installs once; a lock file newer than the last install means that something has changed. */
export function install() {
  const done = join(root, 'node_modules', '.package-lock.json');
  const lock = join(root, 'package-lock.json');
  if (existsSync(done) && statSync(done).mtimeMs >= statSync(lock).mtimeMs - 1000) return;
  console.log('Installing (once, about a minute) ...');
  // Not npm ci: it refuses a lock file that lacks packages of other platforms, which not every registry has.
  if (!npm(['install', '--no-save'], root)) {
    console.error('\nnpm could not install the packages; its messages are above\n');
    process.exit(1);
  }
}

/** Runs npm in a folder, with only its errors to be seen; tells whether it succeeded. */
export function npm(args, folder) {
  const cli = process.env.npm_execpath;
  const [command, first] = cli ? [process.execPath, [cli]] : ['npm', []];
  // An npm that does not know `allowScripts` of package.json would let onnxruntime-node fetch CUDA, which nothing needs.
  const env = { ...process.env, ONNXRUNTIME_NODE_INSTALL: 'skip' };
  const options = { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], env };
  // Its warnings are about packages and a Node that are chosen as they are: Node-RED 5 runs on a Node of its own.
  return spawnSync(command, [...first, ...args, '--loglevel=error'], options).status === 0;
}
