// Builds and runs the benchmark with the Node that belongs to the current Node-RED. Arguments are passed on:
//   node scripts/bench.mjs [--only a,b] [--quick] [--gate] [--no-build]
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { current, root } from './runtimes.mjs';

const options = process.argv.slice(2);
const run = (node, args, env) =>
  spawnSync(node, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } }).status ?? 1;

const pair = current();
if (!pair) {
  console.error('The benchmark needs Node 22.9 for Node-RED 5, and node-24 could not be installed.');
  process.exit(1);
}
if (!options.includes('--no-build')) {
  const status = run(process.execPath, [join('scripts', 'build.mjs')]);
  if (status !== 0) process.exit(status);
}
const args = options.filter((option) => option !== '--no-build');
process.exit(run(pair.node, [join('dist', 'test', 'bench', 'main.js'), ...args], { TEST_NODE_RED: pair.module }));
