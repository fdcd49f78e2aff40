// Builds, lints and runs the tests, each with the Node and Node-RED that it targets.
//   node scripts/test.mjs [--full] [--only FOLDER[,FOLDER]] [--pair 5|4 [--this-node]] [--no-build]
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { install } from './install.mjs';
import { runAll } from './pool.mjs';
import { current, maintained, root } from './runtimes.mjs';
import { together } from './together.mjs';

const { values: options } = parseArgs({
  options: {
    full: { type: 'boolean' },
    only: { type: 'string' },
    pair: { type: 'string' },
    'this-node': { type: 'boolean' },
    'no-build': { type: 'boolean' },
  },
});
const strict = process.env.CI === 'true';
const began = Date.now();

/** Folders of tests that start no process. All files of such a folder run in one process. */
const IN_PROCESS = [
  'config',
  'core',
  'endpoint',
  'engine',
  'flow',
  'gate',
  'headless',
  'ledger',
  'observe',
  'openapi',
  'server',
  'wire',
];
/**
 * `npm test` runs all suites on Node-RED 5; `npm run test:full` runs them on 4.1, except the files that `npm test` covers
 * sufficiently, and runs the long forms of tests that have one. The folders with the slowest files begin first.
 */
const SUITES = [
  // A browser keeps a core busy all the time.
  { name: 'browser', folders: ['editor'], needsChromium: true, most: 2, places: 2 },
  {
    name: 'all but the browser',
    folders: [
      'faults',
      'nodered',
      'store',
      'package',
      'processes',
      'gate/sources',
      'worker',
      'process',
      'examples',
      'docs',
    ].concat(IN_PROCESS),
    most: Infinity,
    places: 1,
  },
];
/**
 * Marks in the names of test files. `x.once.test.ts` is slow and shows nothing new on Node-RED 4.1: `test:full` leaves
 * it to `npm test`. `x.long.test.ts` also has a long form, which it takes when TEST_FULL is set, and `test:full` sets it.
 * `x.shared.test.ts` uses Node-RED, or Node-RED and a browser, with the usual settings, and leaves nothing in it but flows.
 */
const ONCE = 'once';
const LONG = 'long';
const SHARED = 'shared';
/** The common needs of a folder's files that are marked as shared, and the number of processes that run them. */
const SHARES = {
  nodered: { module: 'fixtures/node-red.js', start: 'shareNodeRed', processes: 3 },
  editor: { module: 'editor/session.js', start: 'sharedSession', processes: 2 },
};
function run(label, command, args, env = {}) {
  const startedAt = Date.now();
  console.log(`\n== ${label}`);
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } });
  console.log(`== ${label}: ${status === 0 ? 'passed' : 'FAILED'} in ${Math.round((Date.now() - startedAt) / 1000)} s`);
  return status === 0;
}

function skip(what) {
  if (strict) {
    console.error(`FAILED: ${what}; with CI=true nothing may be skipped`);
    failures.push(what);
  } else {
    console.log(`SKIPPED: ${what}`);
  }
}

function testFiles(folder) {
  const path = join(root, 'dist', 'test', folder);
  if (!existsSync(path)) return [];
  return readdirSync(path)
    .filter((file) => file.endsWith('.test.js'))
    .map((file) => join('dist', 'test', folder, file));
}

/** Returns the files to run for a folder: its own, and files that run several of its own in one process. */
function gathered(folder) {
  const files = testFiles(folder).filter((file) => !leavesToOther(file));
  if (IN_PROCESS.includes(folder)) return files.length > 0 ? [together(folder, files)] : [];
  const shared = files.filter((file) => hasMark(file, SHARED));
  const share = SHARES[folder];
  const groups = Array.from({ length: Math.min(share?.processes ?? 0, shared.length) }, (_, group) =>
    together(
      `${folder}-${group + 1}`,
      shared.filter((_, index) => index % share.processes === group),
      share,
    ),
  );
  return [...groups, ...files.filter((file) => !hasMark(file, SHARED))];
}

function hasMark(file, mark) {
  return basename(file, '.test.js').split('.').slice(1).includes(mark);
}

function leavesToOther(file) {
  return options.full && newer && hasMark(file, ONCE);
}

function findChromium() {
  const candidates = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  return candidates.find((path) => path && existsSync(path));
}

const failures = [];
install();
if (!options['no-build'] && !run('build', process.execPath, ['scripts/build.mjs'])) process.exit(1);
if (!options.only) {
  if (!run('lint', process.execPath, ['node_modules/@biomejs/biome/bin/biome', 'ci', '.'])) failures.push('lint');
  if (!run('structure', process.execPath, ['scripts/check-structure.mjs'])) failures.push('structure');
  if (!run('unused code', process.execPath, ['node_modules/knip/bin/knip.js'])) failures.push('unused code');
}

const newer = current();
if (!newer) skip('Node-RED 5: it needs Node 22.9, and node-24 could not be installed');
const wantsOlder = options.pair ? options.pair === '4' : options.full;
const installed = wantsOlder ? maintained() : (newer ?? maintained());
const pair = options['this-node'] ? { ...installed, node: process.execPath } : installed;

/** Returns the jobs of a suite, without those that need a browser where there is none. */
function jobsOf({ name, folders, needsChromium, most, places }) {
  const wanted = folders.filter((folder) => !options.only || options.only.split(',').includes(folder));
  const files = wanted.flatMap(gathered);
  const chromium = needsChromium ? findChromium() : undefined;
  if (needsChromium && files.length > 0 && !chromium) {
    skip('browser tests: no Chromium found (install it, or set CHROMIUM)');
    return [];
  }
  const env = chromium ? { CHROMIUM: chromium } : {};
  return files.map((file) => ({ suite: name, most, places, on: pair, file, env }));
}

function longForms() {
  const files = SUITES.flatMap(({ folders }) => folders.flatMap(testFiles)).filter((file) => hasMark(file, LONG));
  return files.map((file) => ({
    suite: 'long forms',
    most: Infinity,
    places: 1,
    on: newer,
    file,
    env: { TEST_FULL: '1' },
  }));
}

const jobs = SUITES.flatMap(jobsOf);
// They take longest.
if (options.full && !options.only && newer) jobs.unshift(...longForms());
console.log(`\n== ${jobs.length} test files`);
const { failed, tests } = await runAll(jobs);
for (const { file, on, suite } of failed) failures.push(`${file} on ${on.name} (${suite})`);
console.log(`\n${tests.pass} passed, ${tests.fail} failed, ${tests.skipped} skipped`);

console.log(`Took ${Math.round((Date.now() - began) / 1000)} s.`);
if (failures.length > 0) {
  console.error(`\nFAILED: ${failures.join('; ')}`);
  process.exit(1);
}
console.log('\nAll passed.');
