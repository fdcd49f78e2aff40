// Measures which tests run each source file, and writes test/table.json, which `npm test -- --of FILE` reads.
//   npm run test-table                  all tests, each in its own process: about as long as `npm run test:full`
//   npm run test-table -- NAME ...      the files that bear these names; the lines of the others stay
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from './run-built.mjs';
import { current, maintained } from './runtimes.mjs';
import { functionsRun } from './testing/coverage.mjs';
import { bearing, testFiles } from './testing/files.mjs';
import { alone } from './testing/jobs.mjs';
import { runAll } from './testing/run.mjs';
import { writeTable } from './testing/table.mjs';

const words = process.argv.slice(2);
build();
const files = words.length > 0 ? bearing(testFiles(), words) : testFiles();
const folder = mkdtempSync(join(tmpdir(), 'modelet-coverage-'));
const coverageOf = (name) => join(folder, name.replaceAll('/', '-'));
const jobs = alone(files, current() ?? maintained()).map((job) => ({
  ...job,
  env: { ...job.env, NODE_V8_COVERAGE: coverageOf(job.name) },
}));

/** All functions, and those that each test ran. */
const all = new Map();
const ran = new Map();
await runAll(jobs, undefined, (event, what) => {
  if (event !== 'end') return;
  const { name } = what.job;
  console.log(`${what.passed ? 'measured' : 'FAILED'} ${name}`);
  if (what.passed) ran.set(name, functionsRun(coverageOf(name), all));
  rmSync(coverageOf(name), { recursive: true, force: true });
});
rmSync(folder, { recursive: true, force: true });

const shares = new Map();
for (const [name, functions] of ran) {
  for (const [source, places] of functions) {
    const tests = shares.get(source) ?? new Map();
    shares.set(source, tests.set(name, Math.round((100 * places.size) / all.get(source).size)));
  }
}
writeTable(shares, [...ran.keys()]);
console.log(`Wrote test/table.json from ${ran.size} of ${files.length} test files.`);
