// Runs tests again and again at a third of the machine's speed, to find those that depend on it.
//   npm run test:stress -- [--rounds N] [NAME ...] [options of scripts/test.mjs]
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { root } from './runtimes.mjs';
import { timeOf } from './testing/progress.mjs';

const SHARE = 1 / 3;
const LOOPS_PER_CORE = 3;
const PERIOD_US = 100_000;

const args = process.argv.slice(2);
const at = args.indexOf('--rounds');
const rounds = at < 0 ? 3 : Number(args[at + 1]);
const passedOn = at < 0 ? args : args.toSpliced(at, 2);

/** Makes a group of processes with a third of the machine's time. Returns null where this process may not. */
function makeGroup() {
  const quota = Math.round(availableParallelism() * PERIOD_US * SHARE);
  const name = `modelet-stress-${process.pid}`;
  const kinds = [
    { folder: '/sys/fs/cgroup', file: 'cpu.max', text: `${quota} ${PERIOD_US}` },
    { folder: '/sys/fs/cgroup/cpu', file: 'cpu.cfs_quota_us', text: String(quota) },
  ];
  for (const { folder, file, text } of kinds) {
    const group = join(folder, name);
    try {
      mkdirSync(group);
      // The kernel makes the file with the folder. Elsewhere the folder is one like any other, and groups nothing.
      writeFileSync(join(group, file), text, { flag: 'r+' });
      return group;
    } catch {
      removeGroup(group);
    }
  }
  return null;
}

function removeGroup(group) {
  try {
    rmdirSync(group);
  } catch {
    // It was not made, or a process in it has not ended yet.
  }
}

/** Starts loops that compete for the cores. They end with this process. */
function startLoops() {
  const endless = `process.stdin.on('end', () => process.exit()).resume();
    (function spin() {
      for (const end = Date.now() + 50; Date.now() < end; );
      setImmediate(spin);
    })();`;
  const count = LOOPS_PER_CORE * availableParallelism();
  return Array.from({ length: count }, () =>
    spawn(process.execPath, ['-e', endless], { stdio: ['pipe', 'ignore', 'ignore'] }),
  );
}

const group = makeGroup();
const loops = group ? [] : startLoops();
console.log(
  group ? 'All processes share a third of the machine.' : `${loops.length} busy loops compete for the machine.`,
);

const failed = [];
for (let round = 1; round <= rounds; round += 1) {
  const startedAt = performance.now();
  const words = passedOn.some((word) => !word.startsWith('-')) ? [] : ['--full'];
  const command = [
    process.execPath,
    join('scripts', 'test.mjs'),
    ...words,
    ...passedOn,
    ...(round > 1 ? ['--no-build'] : []),
  ];
  const enter = group ? ['sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', group] : [];
  const [program, ...rest] = [...enter, ...command];
  const { status } = spawnSync(program, rest, { cwd: root, stdio: 'inherit' });
  if (status !== 0) failed.push(round);
  console.log(
    `\n=== round ${round} of ${rounds}: ${status === 0 ? 'passed' : 'FAILED'} in ${timeOf((performance.now() - startedAt) / 1000)}`,
  );
}
for (const loop of loops) loop.kill();
if (group) removeGroup(group);
if (failed.length > 0) console.error(`\nFAILED in ${failed.length} of ${rounds} rounds: ${failed.join(', ')}`);
process.exit(failed.length > 0 ? 1 : 0);
