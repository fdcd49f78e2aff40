// Runs jobs, each in a separate process and several at once. One pool takes the jobs of all folders, because
// `node --test` sorts the files that it is given: long files came last, and a core idled while they ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { root } from '../runtimes.mjs';

/** Places for jobs that run at once. Most tests wait for processes, so that more jobs than cores keep the cores busy. */
const PLACES = 7;
/** A job hangs if none of its tests has ended for so long. The longest test takes a few minutes; a slow machine, many times as long. */
const MINUTES_PER_TEST = 40;
/** After this, a job that was told to end is killed. */
const SECONDS_TO_END = 20;
const SECONDS_TO_CLOSE = 2;
/** Hundreds of processes load the same code: Node compiles it once. Node 20 has no such cache. */
const COMPILED = join(root, 'node_modules', '.cache', 'compiled');
const REPORTER = join(root, 'scripts', 'testing', 'events.mjs');
/**
 * Certificates of this machine, which Node 20 parses at each start: with some, that costs more than all else of the start.
 * Only tests that ask the registry need them.
 */
const { NODE_EXTRA_CA_CERTS: certificates, ...environment } = process.env;
const ASKS_REGISTRY = 'package';

/**
 * The end of a job. `tests` has each test, with its path of names, and each file of a job with several.
 * @typedef {{ job: import('./jobs.mjs').Job, passed: boolean, seconds: number, output: string, tests: { passed: boolean,
 *   path: string[], isSuite: boolean, isCause: boolean, skipped?: string, seconds: number, message?: string }[] }} Result
 */

/**
 * Runs all jobs, the longest first; a job that takes several places waits for them.
 * @param {import('./jobs.mjs').Job[]} jobs
 * @param {string | undefined} pattern regular expression: runs only tests of such a name
 * @param {(event: 'start' | 'end', what: import('./jobs.mjs').Job | Result) => void} tell
 * @returns {Promise<Result[]>}
 */
export async function runAll(jobs, pattern, tell) {
  const reports = mkdtempSync(join(tmpdir(), 'modelet-tests-'));
  const waiting = jobs.toSorted((a, b) => b.seconds - a.seconds);
  const running = new Map();
  const results = [];
  const free = () => PLACES - [...running.keys()].reduce((sum, { places }) => sum + places, 0);

  function startMore() {
    for (;;) {
      const index = waiting.findIndex(({ places }) => places <= free());
      if (index < 0) return;
      const [job] = waiting.splice(index, 1);
      running.set(job, runJob(job, pattern, join(reports, `${results.length + running.size}.jsonl`)));
      tell('start', job);
    }
  }

  try {
    for (startMore(); running.size > 0; startMore()) {
      const result = await Promise.race(running.values());
      running.delete(result.job);
      results.push(result);
      tell('end', result);
    }
  } finally {
    rmSync(reports, { recursive: true, force: true });
  }
  return results;
}

/** @returns {Promise<Result>} */
async function runJob(job, pattern, report) {
  const startedAt = performance.now();
  const output = [];
  const child = spawn(job.on.node, [...argumentsFor(pattern, report), job.path], {
    cwd: root,
    env: { ...environmentOf(job), TEST_NODE_RED: job.on.module, ...job.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk));
  const letGo = endsIfHung(child, report, () =>
    output.push(Buffer.from(`No test has ended for ${MINUTES_PER_TEST} min.\n`)),
  );
  const closed = once(child, 'close');
  const [code, signal] = await once(child, 'exit');
  // A process that the file left behind may keep its output open.
  await Promise.race([closed, delay(SECONDS_TO_CLOSE * 1000, undefined, { ref: false })]);
  letGo();
  if (signal) output.push(Buffer.from(`Ended by ${signal}.\n`));
  const seconds = (performance.now() - startedAt) / 1000;
  const text = Buffer.concat(output).toString();
  return { job, passed: code === 0, seconds, output: text, tests: readReport(report) };
}

function environmentOf({ files }) {
  const asksRegistry = files.some(({ kind }) => kind === ASKS_REGISTRY);
  const more = asksRegistry && certificates ? { NODE_EXTRA_CA_CERTS: certificates } : {};
  return { NODE_COMPILE_CACHE: COMPILED, ...environment, ...more };
}

/** Ends a job whose report has not grown for too long. Returns a function that stops watching it. */
function endsIfHung(child, report, onHung) {
  let kill;
  let size = 0;
  let quietMinutes = 0;
  const watch = setInterval(() => {
    const before = size;
    size = statSync(report, { throwIfNoEntry: false })?.size ?? 0;
    quietMinutes = size > before ? 0 : quietMinutes + 1;
    if (quietMinutes !== MINUTES_PER_TEST) return;
    onHung();
    child.kill();
    kill = setTimeout(() => child.kill('SIGKILL'), SECONDS_TO_END * 1000);
  }, 60_000);
  return () => {
    clearInterval(watch);
    clearTimeout(kill);
  };
}

function argumentsFor(pattern, report) {
  const reporters = [
    ['spec', 'stdout'],
    [REPORTER, report],
  ].flatMap(([reporter, to]) => [`--test-reporter=${reporter}`, `--test-reporter-destination=${to}`]);
  return pattern === undefined ? reporters : [...reporters, `--test-name-pattern=${pattern}`];
}

/** Returns the lines of the report. The last may be cut where a process was killed. */
function readReport(path) {
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    // The process ended before its first test.
  }
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  return whole.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
}
