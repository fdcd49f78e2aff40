// Installs the packages if they are missing or outdated, so that the README's commands work on a fresh clone.
import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtimes.mjs';

/** Installs the packages unless the last install is newer than the lock file. */
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

/** Runs npm in a folder and shows only its errors. Returns whether it succeeded. */
export function npm(args, folder) {
  const cli = process.env.npm_execpath;
  const [command, first] = cli ? [process.execPath, [cli]] : ['npm', []];
  // An npm without support for `allowScripts` would let onnxruntime-node download CUDA, which nothing here uses, and
  // let a package below swagger-ui-dist report the installation.
  const env = { ...process.env, ONNXRUNTIME_NODE_INSTALL: 'skip', SCARF_ANALYTICS: 'false' };
  const options = { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], env };
  // Hide warnings about deliberate choices of packages and Node: Node-RED 5 runs on its own Node.
  return spawnSync(command, [...first, ...args, '--loglevel=error'], options).status === 0;
}
