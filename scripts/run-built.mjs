// Builds the package and runs one of its compiled programs with a matching pair of Node and Node-RED.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from './runtimes.mjs';

const run = (node, args, env) =>
  spawnSync(node, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } }).status ?? 1;

/** Builds the package. Ends this process if the build fails. */
export function build() {
  const status = run(process.execPath, [join('scripts', 'build.mjs')]);
  if (status !== 0) process.exit(status);
}

/** Runs a program and ends this process with its exit code. `program` is a path below `dist`. */
export function runBuilt(pair, program, args) {
  process.exit(run(pair.node, [join('dist', program), ...args], { TEST_NODE_RED: pair.module }));
}
