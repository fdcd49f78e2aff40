// Builds and runs the soak test with the Node that belongs to the current Node-RED. Arguments are passed on:
//   node scripts/soak.mjs [--minutes 1] [--rate 100] [--seed N]
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { current, maintained, root } from './runtimes.mjs';

const pair = current() ?? maintained();
const run = (node, args, env) =>
  spawnSync(node, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } }).status ?? 1;

const built = run(process.execPath, [join('scripts', 'build.mjs')]);
if (built !== 0) process.exit(built);
const args = [join('dist', 'test', 'faults', 'soak.js'), ...process.argv.slice(2)];
process.exit(run(pair.node, args, { TEST_NODE_RED: pair.module }));
