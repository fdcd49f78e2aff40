// Prints the end of a run: its time by part, the tests that were skipped and why, and each failure with the
// command that runs that test alone.
import { timeOf } from './progress.mjs';

/** Node.js 20 reports the tests that a pattern leaves out as skipped, for this reason. */
const LEFT_OUT = 'test name does not match pattern';
const LONGEST_MESSAGE = 400;

/** @param {import('./run.mjs').Result[]} results */
export function countTests(results) {
  const tests = results.flatMap((result) => result.tests).filter((test) => !test.isSuite && test.skipped !== LEFT_OUT);
  const skipped = tests.filter((test) => test.skipped !== undefined).length;
  const failed = tests.filter((test) => !test.passed && test.skipped === undefined).length;
  return { passed: tests.length - skipped - failed, failed, skipped };
}

/** Prints the reasons for which tests were skipped, each with the number of tests. */
export function printSkipped(results) {
  const reasons = new Map();
  for (const { skipped } of results.flatMap(({ tests }) => tests)) {
    if (skipped !== undefined && skipped !== LEFT_OUT) reasons.set(skipped, (reasons.get(skipped) ?? 0) + 1);
  }
  if (reasons.size > 0) console.log('\nSkipped:');
  for (const [reason, count] of reasons) console.log(`  ${count} ${count === 1 ? 'test' : 'tests'}: ${reason}`);
}

/** Prints each failed test with its message and the command that runs it alone. Returns the number of failed jobs. */
export function printFailures(results) {
  const failed = results.filter(({ passed }) => !passed);
  if (failed.length > 0) console.log('\nFailed:');
  for (const result of failed) {
    const causes = result.tests.filter(({ passed, isCause, skipped }) => !passed && isCause && skipped === undefined);
    for (const test of causes) printFailure(result.job, test);
    // The process may have ended between its tests.
    if (causes.length === 0)
      printFailure(result.job, { path: [], message: result.output.trimEnd().slice(-LONGEST_MESSAGE) });
  }
  return failed.length;
}

function printFailure(job, { path, message = '' }) {
  const file = job.files.length > 1 ? job.files.find(({ name }) => name === path[0]) : job.files[0];
  const names = file && path[0] === file.name ? path.slice(1) : path;
  console.log(`\n  ${[file?.name ?? job.name, ...names].join(' > ')} (${job.on.name})`);
  for (const line of message.slice(0, LONGEST_MESSAGE).split('\n')) console.log(`    ${line}`);
  console.log(`    Run it alone: ${commandFor(job, file, names)}`);
}

function commandFor(job, file, names) {
  const script = 'TEST_FULL' in job.env || job.on.pair === '4' ? 'test:full' : 'test';
  const words = [
    `npm ${script === 'test' ? 'test' : 'run test:full'} --`,
    file?.name ?? job.files.map(({ name }) => name).join(' '),
  ];
  if (script === 'test:full') words.push(`--pair ${job.on.pair}`);
  const name = names.at(-1);
  if (name !== undefined) words.push(`--test '${name.replaceAll("'", "'\\''")}'`);
  return words.join(' ');
}

/** Prints the time of each part of the run. @param {[name: string, seconds: number][]} parts */
export function printTimes(parts) {
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  console.log(
    `\nTime: ${parts.map(([name, seconds]) => `${name} ${timeOf(seconds)}`).join(', ')}; ${timeOf(total)} in all`,
  );
}
