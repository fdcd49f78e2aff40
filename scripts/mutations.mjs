// Makes each bug of test/mutations/edits.ts in a copy of the repository, and runs the test that must notice it.
//   npm run mutations [-- --only TEXT]     those whose description or file contains TEXT
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { current, maintained, root } from './runtimes.mjs';
import { testFiles } from './testing/files.mjs';

const { values: options } = parseArgs({ options: { only: { type: 'string', default: '' } } });
const { node } = current() ?? maintained();
const NOT_COPIED = new Set(['node_modules', '.git', '.node-red', '.node-red-dashboard', '.peers', '.recipes', 'dist']);
/** Time limit of a test. A test that hangs because of the bug counts as red. */
const TEST_TIMEOUT_MS = 120_000;
const NO_TEST = 'NO SUCH TEST';
const UNSOUND = { 'not ok': 'FAILS WITHOUT THE BUG', hangs: 'HANGS WITHOUT THE BUG' };

const copy = mkdtempSync(join(tmpdir(), 'modelet-mutations-'));
for (const name of readdirSync(root)) {
  if (!NOT_COPIED.has(name)) cpSync(join(root, name), join(copy, name), { recursive: true });
}
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));

function build() {
  const { status, stdout } = spawnSync(process.execPath, [join(copy, 'scripts', 'build.mjs')], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`the copy does not compile:\n${stdout}`);
}

/** Returns `ok`, `not ok`, `hangs` if the test did not end in time, or undefined if no test of that name ran. */
function run({ suite, test }) {
  const pattern = `^${test.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`;
  const found = testFiles().find(({ name }) => name === suite);
  if (!found) return undefined;
  const file = join(copy, found.file);
  const args = ['--test-reporter=tap', `--test-name-pattern=${pattern}`, file];
  // Run the test file directly, in one process: all other marked processes are then processes that the test started.
  const { stdout, error } = spawnSync(node, args, { cwd: copy, encoding: 'utf8', timeout: TEST_TIMEOUT_MS });
  killStarted();
  const lines = stdout.split('\n').filter((text) => /^ *(not )?ok \d+ - /.test(text) && text.endsWith(` - ${test}`));
  // A file that does not end hangs, even if its test passed: everything that it started should have ended.
  if (error?.code === 'ETIMEDOUT') return 'hangs';
  // Several suites of the file may have a test of that name.
  const results = lines.map((line) => /^ *((not )?ok)/.exec(line)[1]);
  return results.includes('not ok') ? 'not ok' : results[0];
}

/** Makes the bug, runs its test, and reverts the bug. Returns the result for the table. */
function judge(mutation) {
  const path = join(copy, mutation.file);
  const source = readFileSync(path, 'utf8');
  if (source.split(mutation.find).length !== 2) return 'DOES NOT APPLY';
  try {
    writeFileSync(
      path,
      source.replace(mutation.find, () => mutation.replace),
    );
    build();
    return { 'not ok': 'red', hangs: 'red, it hangs', ok: 'GREEN' }[run(mutation)] ?? NO_TEST;
  } catch (error) {
    console.error(error.message);
    return 'DOES NOT COMPILE';
  } finally {
    writeFileSync(path, source);
  }
}

build();
// Marks all processes started from here on, so that none outlives its test.
const { killStarted } = await import(join(copy, 'dist', 'test', 'fixtures', 'processes.js'));
const { MUTATIONS } = await import(join(copy, 'dist', 'test', 'mutations', 'edits.js'));

let failures = 0;
try {
  const chosen = MUTATIONS.filter(({ bug, file }) => [bug, file].some((text) => text.includes(options.only)));
  // A test that fails without the bug proves nothing when it fails with the bug.
  const before = chosen.map((mutation) => run(mutation));
  console.log('| bug | test | result |\n|---|---|---|');
  chosen.forEach((mutation, index) => {
    const result = before[index] === 'ok' ? judge(mutation) : (UNSOUND[before[index]] ?? NO_TEST);
    if (!result.startsWith('red')) failures += 1;
    console.log(`| ${mutation.bug} | ${mutation.suite}: ${mutation.test} | ${result} |`);
  });
} finally {
  rmSync(copy, { recursive: true, force: true });
}
process.exit(failures > 0 ? 1 : 0);
