// Builds, lints and runs the tests, each with the Node and Node-RED it is about.
//   node scripts/test.mjs [--full] [--only FOLDER[,FOLDER]] [--pair 5|4]
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { install } from './install.mjs';
import { current, maintained, root } from './runtimes.mjs';

const { values: options } = parseArgs({
  options: {
    full: { type: 'boolean' },
    only: { type: 'string' },
    pair: { type: 'string' },
    'no-build': { type: 'boolean' },
  },
});
const strict = process.env.CI === 'true';

/** Folders of tests, quickest first. `both`: on either pair of Node and Node-RED; else on the current one. */
const SUITES = [
  {
    folders: ['core', 'config', 'wire', 'engine', 'graph', 'lifecycle', 'server', 'worker', 'examples', 'docs'],
    both: true,
  },
  { folders: ['processes'], both: false, bothInFull: true },
  { folders: ['nodered', 'package'], both: true },
  { folders: ['editor'], both: false, needsChromium: true },
];
const SECONDS_PER_TEST = 240;

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

function testFiles(folders) {
  return folders.flatMap((folder) => {
    const path = join(root, 'dist', 'test', folder);
    if (!existsSync(path)) return [];
    return readdirSync(path)
      .filter((file) => file.endsWith('.test.js') || (options.full && file.endsWith('.full.js')))
      .map((file) => join('dist', 'test', folder, file));
  });
}

function findChromium() {
  const candidates = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  return candidates.find((path) => path && existsSync(path));
}

const failures = [];
install();
if (!options['no-build'] && !run('build', process.execPath, ['scripts/build.mjs'])) process.exit(1);
if (!options.only && !run('lint', process.execPath, ['node_modules/@biomejs/biome/bin/biome', 'ci', '.']))
  failures.push('lint');

const pairs = [current(), maintained()].filter(Boolean);
if (!current()) skip('Node-RED 5: it needs Node 22.9, and node-24 could not be installed');

for (const suite of SUITES) {
  const folders = suite.folders.filter((folder) => !options.only || options.only.split(',').includes(folder));
  const files = testFiles(folders);
  if (files.length === 0) continue;
  const chromium = suite.needsChromium ? findChromium() : undefined;
  if (suite.needsChromium && !chromium) {
    skip('browser tests: no Chromium found (install it, or set CHROMIUM)');
    continue;
  }
  const wanted = suite.both || (options.full && suite.bothInFull) ? pairs : pairs.slice(0, 1);
  for (const pair of wanted) {
    if (options.pair && !pair.name.includes(`RED ${options.pair}`)) continue;
    const label = `${folders.join(', ')} on ${pair.name}`;
    const args = ['--test', '--test-concurrency=1', `--test-timeout=${SECONDS_PER_TEST * 1000}`, ...files];
    const env = {
      TEST_NODE_RED: pair.module,
      ...(chromium ? { CHROMIUM: chromium } : {}),
      ...(options.full ? { TEST_FULL: '1' } : {}),
    };
    if (!run(label, pair.node, args, env)) failures.push(label);
  }
}

if (failures.length > 0) {
  console.error(`\nFAILED: ${failures.join('; ')}`);
  process.exit(1);
}
console.log('\nAll passed.');
