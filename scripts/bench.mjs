// Builds and runs the benchmark with the Node version of the current Node-RED. Passes arguments on:
//   node scripts/bench.mjs [--only a,b] [--quick] [--gate] [--no-build]
//   node scripts/bench.mjs --peers [--only batch,single] [--quick] [--json FILE] [--no-build]
//   node scripts/bench.mjs --known [--only speech,detr] [--keep FOLDER] [--no-build]
import { build, runBuilt } from './run-built.mjs';
import { current } from './runtimes.mjs';

const options = process.argv.slice(2);
const pair = current();
if (!pair) {
  console.error('The benchmark needs Node 22.9 for Node-RED 5, and node-24 could not be installed.');
  process.exit(1);
}
if (!options.includes('--no-build')) build();
const ours = ['--no-build', '--peers', '--known'];
const folder = ['peers', 'known'].find((name) => options.includes(`--${name}`)) ?? '.';
runBuilt(
  pair,
  `test/bench/${folder}/main.js`,
  options.filter((option) => !ours.includes(option)),
);
