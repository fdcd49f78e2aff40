// Builds, lints and runs tests, each with the Node.js and Node-RED that it targets. CONTRIBUTING.md has the options.
//   npm test                    the quick tests, on Node-RED 5
//   npm test -- NAME ...        the files that bear these names
//   npm test -- --of FILE       the files that run most functions of a source file
//   npm run test:full           all tests on Node-RED 5 and 4.1, and their long forms
//   npm run test:full -- --rest what npm test does not run: CI has run that before
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';
import { install } from './install.mjs';
import { current, maintained, root } from './runtimes.mjs';
import { bearing, testFiles } from './testing/files.mjs';
import { findChromium, jobsOf, longForms } from './testing/jobs.mjs';
import { Progress, timeOf } from './testing/progress.mjs';
import { runAll } from './testing/run.mjs';
import { countTests, printFailures, printSkipped, printTimes } from './testing/summary.mjs';
import { testsOf } from './testing/table.mjs';
import { expectedSeconds, keyOf, record } from './testing/times.mjs';

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    full: { type: 'boolean' },
    rest: { type: 'boolean' },
    pair: { type: 'string' },
    'this-node': { type: 'boolean' },
    'no-build': { type: 'boolean' },
    of: { type: 'string', multiple: true },
    test: { type: 'string' },
    record: { type: 'boolean' },
    list: { type: 'boolean' },
  },
});
/** With CI=true, a test that cannot run fails. */
const strict = process.env.CI === 'true';
const isChosen = words.length > 0 || options.of !== undefined;
const failures = [];
const parts = [];

function timed(name, work) {
  const startedAt = performance.now();
  const result = work();
  parts.push([name, (performance.now() - startedAt) / 1000]);
  return result;
}

function check(label, ...args) {
  const passed = timed(label, () => spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' }).status === 0);
  console.log(`== ${label}: ${passed ? 'passed' : 'FAILED'} in ${timeOf(parts.at(-1)[1])}`);
  if (!passed) failures.push(label);
  return passed;
}

/** Says what cannot run, and how to change that. */
function cannot(what, remedy) {
  console.log(`${strict ? 'FAILED' : 'SKIPPED'}: ${what}. ${remedy}`);
  if (strict) failures.push(what);
}

/** Returns the files that this run is about. */
function select(files) {
  if (options.of) return ofSources(files);
  return words.length > 0 ? bearing(files, words) : files;
}

/** Returns the tests of the source files, and prints them with the share of the functions that each calls. */
function ofSources(files) {
  const rows = options.of.flatMap((path) => testsOf(path, files));
  for (const { source, test, percent } of rows)
    console.log(`${test.name} calls ${percent} % of the functions of ${source}`);
  return [...new Set(rows.map(({ test }) => test))];
}

/** Returns the jobs of this run. */
function chooseJobs() {
  const five = options.pair === '4' ? undefined : pairFive();
  // Without Node-RED 5, `npm test` runs its tests on 4.1.
  const wantsFour = options.full ? options.pair !== '5' : options.pair === '4' || !five;
  const four = wantsFour ? onThisNode(maintained()) : undefined;
  const files = withoutMissing(select(testFiles()));
  const has = (mark) => (file) => file.marks.has(mark);
  if (!options.full) {
    const chosen = isChosen ? files : files.filter(isQuick);
    return jobsOf(chosen, five ?? four);
  }
  const jobs = [];
  if (five)
    jobs.push(
      ...jobsOf(
        files.filter((file) => !file.marks.has('long') && !(options.rest && isQuick(file))),
        five,
      ),
      ...longForms(files.filter(has('long')), five),
    );
  if (four)
    jobs.push(
      ...jobsOf(
        files.filter((file) => options.pair === '4' || !file.marks.has('once')),
        four,
      ),
    );
  return jobs;
}

function pairFive() {
  const pair = current();
  if (!pair)
    cannot('the tests on Node-RED 5', 'It needs Node.js 22.9 or newer: npm install brings one for most systems');
  return pair && onThisNode(pair);
}

function onThisNode(pair) {
  return options['this-node'] ? { ...pair, node: process.execPath } : pair;
}

/** Returns the files without browser tests if no browser is installed. */
function withoutMissing(files) {
  const needBrowser = files.filter(({ folder }) => folder === 'editor');
  if (needBrowser.length === 0 || findChromium()) return files;
  cannot(
    `${needBrowser.length} files of browser tests`,
    'Install Chromium (Debian: apt-get install chromium), or set CHROMIUM to its path',
  );
  return files.filter((file) => !needBrowser.includes(file));
}

/** Prints the table of test files: their marks, their usual seconds, and whether `npm test` runs them. */
function list() {
  const files = select(testFiles('test', 'ts'));
  const rows = files.map((file) => [
    file.name,
    [...file.marks].join(' '),
    String(expectedSeconds(file.name)),
    isQuick(file) ? 'npm test' : 'npm run test:full',
  ]);
  const head = ['file', 'marks', 'seconds', 'first command that runs it'];
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column].length)));
  for (const row of [head, ...rows])
    console.log(
      row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    );
  console.log(`\n${files.length} files, ${files.filter(isQuick).length} of them by npm test`);
}

function isQuick(file) {
  return file.inProcess || file.marks.has('quick');
}

if (options.list) {
  list();
  process.exit();
}
install();
if (!options['no-build'] && !check('build', 'scripts/build.mjs')) process.exit(1);
if (!isChosen && !options['no-build']) {
  check('lint', 'node_modules/@biomejs/biome/bin/biome', 'ci', '.');
  check('structure', 'scripts/check-structure.mjs');
  check('words', 'scripts/check-words.mjs');
  check('unused code', 'node_modules/knip/bin/knip.js');
}

const jobs = chooseJobs();
if (jobs.length === 0) {
  const names = [...words, ...(options.of ?? [])].map((word) => `"${word}"`).join(' or ');
  const is = options.of ? 'runs the source file' : 'is called';
  console.error(
    `No test file ${is} ${names}. Names are paths, such as nodered/messages/load or src/runtime/engine/engine.ts.`,
  );
  process.exit(1);
}
const usual = isChosen ? '' : `; usually ${options.full ? '30' : '5'} minutes on two free cores`;
console.log(`\n${jobs.length} processes run the tests${usual}`);
const progress = new Progress(jobs);
const testsBegan = performance.now();
const pattern = options.test?.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
const results = await runAll(jobs, pattern, (event, what) => progress.tell(event, what));
progress.close();
parts.push(['tests', (performance.now() - testsBegan) / 1000]);
if (options.record) record(timesByFile(results));

/** Returns the seconds of each file. A job with several files reports each as a suite. */
function timesByFile(all) {
  const pairs = all
    .filter(({ job }) => job.on.pair === '5')
    .flatMap(({ job, seconds, tests }) => {
      if (job.files.length === 1) return [[keyOf(job.files[0].name, 'TEST_FULL' in job.env), seconds]];
      return tests.flatMap((test) => (test.isSuite && test.path.length === 1 ? [[test.path[0], test.seconds]] : []));
    });
  return new Map(pairs);
}

printSkipped(results);
if (printFailures(results) > 0) failures.push('tests');
printTimes(parts);
const { passed, failed, skipped } = countTests(results);
console.log(`\n${passed} passed, ${failed} failed, ${skipped} skipped`);
if (failures.length > 0) {
  console.error(`\nFAILED: ${failures.join(', ')}`);
  process.exit(1);
}
console.log('\nAll passed.');
