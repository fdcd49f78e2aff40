// Builds the package, and runs a compiled program of it with the Node and the Node-RED that belong together.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from './runtimes.mjs';

const run = (node, args, env) =>
  spawnSync(node, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } }).status ?? 1;

/** Ends this process if it fails. */
export function build() {
  const status = run(process.execPath, [join('scripts', 'build.mjs')]);
  if (status !== 0) process.exit(status);
}

/** Ends this process with what the program ends with. `program`: below `dist`. */
export function runBuilt(pair, program, args) {
  process.exit(run(pair.node, [join('dist', program), ...args], { TEST_NODE_RED: pair.module }));
}
