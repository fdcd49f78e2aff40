// Runs test files, each in a process of its own and several at once. One pool takes the files of all suites, because
// `node --test` sorts the files that it is given: long files came last, and a core idled while they ended.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { root } from './runtimes.mjs';

/** Places for files that run at once. Most tests wait for processes, so that more files than cores keep the cores busy. */
const PLACES = 6;
/** Time limit against tests that hang. The longest file takes a few minutes, and fifteen where 30 processes want a core. */
const SECONDS_PER_FILE = 1200;
/** After this, a file that was told to end is killed. */
const SECONDS_TO_END = 20;
const SECONDS_TO_CLOSE = 2;
/** Hundreds of processes load the same code: Node compiles it once. Node 20 has no such cache. */
const COMPILED = join(root, 'node_modules', '.cache', 'compiled');

/**
 * Runs all jobs. Returns those that failed, and the number of tests by their result. They start in their order, but a job waits while there are not as many
 * places as it takes, or while `most` jobs of its suite run.
 * @param {{ suite: string, most: number, places: number, on: { name: string, node: string, module: string }, file: string,
 *   env: Record<string, string> }[]} jobs
 */
export async function runAll(jobs) {
  const waiting = [...jobs];
  const running = new Map();
  const failed = [];
  const tests = { pass: 0, fail: 0, skipped: 0 };

  function startMore() {
    for (;;) {
      const index = waiting.findIndex(({ suite, most, places }) => places <= free() && runningOf(suite) < most);
      if (index < 0) return;
      const [job] = waiting.splice(index, 1);
      running.set(
        job,
        runFile(job).then((result) => ({ job, ...result })),
      );
    }
  }
  const free = () => PLACES - [...running.keys()].reduce((sum, { places }) => sum + places, 0);
  const runningOf = (suite) => [...running.keys()].filter((job) => job.suite === suite).length;

  for (startMore(); running.size > 0; startMore()) {
    const { job, ...result } = await Promise.race(running.values());
    running.delete(job);
    if (!result.passed) failed.push(job);
    for (const kind of Object.keys(tests)) tests[kind] += countOf(kind, result.output);
    print(job, result, `${jobs.length - waiting.length - running.size}/${jobs.length}`);
  }
  return { failed, tests };
}

async function runFile({ on, file, env }) {
  const startedAt = performance.now();
  const output = [];
  const child = spawn(on.node, ['--test-reporter=spec', file], {
    cwd: root,
    env: { NODE_COMPILE_CACHE: COMPILED, ...process.env, TEST_NODE_RED: on.module, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk));
  const end = setTimeout(() => {
    output.push(Buffer.from(`Not over after ${SECONDS_PER_FILE} s.\n`));
    child.kill();
  }, SECONDS_PER_FILE * 1000);
  const kill = setTimeout(() => child.kill('SIGKILL'), (SECONDS_PER_FILE + SECONDS_TO_END) * 1000);
  const closed = once(child, 'close');
  const [code, signal] = await once(child, 'exit');
  // A process that the file left behind may keep its output open.
  await Promise.race([closed, delay(SECONDS_TO_CLOSE * 1000, undefined, { ref: false })]);
  clearTimeout(end);
  clearTimeout(kill);
  if (signal) output.push(Buffer.from(`Ended by ${signal}.\n`));
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  return { passed: code === 0, seconds, output: Buffer.concat(output).toString() };
}

/** Prints one line for a file that passed, and all its output for one that failed. */
function print({ on, file }, { passed, seconds, output }, progress) {
  const skipped = countOf('skipped', output);
  const line = `${progress} ${passed ? 'passed' : 'FAILED'} ${file} on ${on.name}: ${seconds} s`;
  console.log(`${line}${skipped > 0 ? `, ${skipped} tests skipped` : ''}`);
  if (!passed) console.log(output);
}

/** Reads a number from the lines with which a test process ends. */
function countOf(kind, output) {
  return Number(new RegExp(`^ℹ ${kind} (\\d+)$`, 'm').exec(output)?.[1] ?? 0);
}
