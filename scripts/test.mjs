// Builds, lints and runs the tests, each with the Node and Node-RED that it targets.
//   node scripts/test.mjs [--full] [--only FOLDER[,FOLDER]] [--pair 5|4] [--no-build]
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { install } from './install.mjs';
import { current, maintained, root } from './runtimes.mjs';
import { together } from './together.mjs';

const { values: options } = parseArgs({
  options: {
    full: { type: 'boolean' },
    only: { type: 'string' },
    pair: { type: 'string' },
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
  'ledger',
  'observe',
  'openapi',
  'server',
  'wire',
];
/**
 * Runs of tests. `npm test` runs all of them on Node-RED 5; `npm run test:full` runs them on 4.1, except those that
 * `npm test` covers sufficiently, and runs the long forms of tests that have one. The slowest files begin first.
 */
const SUITES = [
  {
    name: 'all but the browser',
    folders: [
      'faults',
      'package',
      'nodered',
      'processes',
      'store',
      'gate/sources',
      'worker',
      'process',
      'examples',
      'docs',
    ].concat(IN_PROCESS),
  },
  { name: 'browser', folders: ['editor'], needsChromium: true },
];
/**
 * Marks in the names of test files. `x.once.test.ts` is slow and shows nothing new on Node-RED 4.1: `test:full` leaves
 * it to `npm test`. `x.long.test.ts` also has a long form, which it takes when TEST_FULL is set, and `test:full` sets it.
 * `x.shared.test.ts` uses Node-RED with the usual settings, and leaves nothing in it but flows.
 */
const ONCE = 'once';
const LONG = 'long';
const SHARED = 'shared';
/** Processes that run the files marked as shared, each with a Node-RED. */
const SHARED_NODE_REDS = 3;
/** Time limit against tests that hang. The longest test takes a few minutes. */
const SECONDS_PER_TEST = 600;
/** Test files that run at once. Most tests wait for processes, but a browser is busy all the time. */
const FILES_AT_ONCE = { browser: 2, other: 4 };

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
  const groups = Array.from({ length: Math.min(SHARED_NODE_REDS, shared.length) }, (_, group) =>
    together(
      `${folder}-${group + 1}`,
      shared.filter((_, index) => index % SHARED_NODE_REDS === group),
      { sharesNodeRed: true },
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
}

const newer = current();
if (!newer) skip('Node-RED 5: it needs Node 22.9, and node-24 could not be installed');
const wantsOlder = options.pair ? options.pair === '4' : options.full;
const pair = wantsOlder ? maintained() : (newer ?? maintained());

function runFiles(label, on, files, env = {}) {
  const atOnce = env.CHROMIUM ? FILES_AT_ONCE.browser : FILES_AT_ONCE.other;
  const args = ['--test', `--test-concurrency=${atOnce}`, `--test-timeout=${SECONDS_PER_TEST * 1000}`, ...files];
  if (!run(`${label} on ${on.name}`, on.node, args, { TEST_NODE_RED: on.module, ...env }))
    failures.push(`${label} on ${on.name}`);
}

for (const suite of SUITES) {
  const folders = suite.folders.filter((folder) => !options.only || options.only.split(',').includes(folder));
  const files = folders.flatMap(gathered);
  if (files.length === 0) continue;
  const chromium = suite.needsChromium ? findChromium() : undefined;
  if (suite.needsChromium && !chromium) skip('browser tests: no Chromium found (install it, or set CHROMIUM)');
  else runFiles(options.only ?? suite.name, pair, files, chromium ? { CHROMIUM: chromium } : {});
}
if (options.full && !options.only && newer) {
  const files = SUITES.flatMap(({ folders }) => folders.flatMap(testFiles)).filter((file) => hasMark(file, LONG));
  runFiles('long forms', newer, files, { TEST_FULL: '1' });
}

console.log(`\nTook ${Math.round((Date.now() - began) / 1000)} s.`);
if (failures.length > 0) {
  console.error(`\nFAILED: ${failures.join('; ')}`);
  process.exit(1);
}
console.log('\nAll passed.');
