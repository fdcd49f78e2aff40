// Builds and runs the soak test with the Node version of the current Node-RED. Passes arguments on:
//   node scripts/soak.mjs [--minutes 1] [--rate 100] [--seed N]
import { build, runBuilt } from './run-built.mjs';
import { current, maintained } from './runtimes.mjs';

build();
runBuilt(current() ?? maintained(), 'test/faults/soak.js', process.argv.slice(2));
