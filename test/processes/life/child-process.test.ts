/** A child and its parent when one cannot deal with what the other sends: the cause is told, and only the child ends. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Clock, systemClock } from '../../../src/core/clock.ts';
import { type Child, type ChildEvents, levelOfOutput } from '../../../src/process/parent/child.ts';
import { ChildProcess } from '../../../src/process/parent/child-process.ts';
import type { ControlFrame } from '../../../src/wire/frames/frames.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, killStarted, startedProcesses } from '../../fixtures/processes.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const BOOT: ControlFrame = {
  type: 'boot',
  body: {
    maxQueueBytes: 1 << 20,
    maxPayloadBytes: 1024,
    statesFolder: '',
    allowedCpus: [],
    launcher: { setpriv: false, taskset: false },
    strictPins: false,
    sharesSlots: false,
    requests: { mostWaiting: 0, barred: null },
  },
};

const PROGRAMS = { engine: 'programs/engine.js', worker: 'runtime/worker/main.js' };

function start(
  t: TestContext,
  kind: keyof typeof PROGRAMS,
  events: Partial<ChildEvents> = {},
  clock: Clock = systemClock,
): Child {
  return startFile(t, join(repositoryRoot, 'dist', 'src', PROGRAMS[kind]), events, clock);
}

function startFile(t: TestContext, entry: string, events: Partial<ChildEvents>, clock: Clock): Child {
  const child = new ChildProcess(
    {
      command: [process.execPath, entry],
      entry,
      cpus: null,
      launcher: { setpriv: false, taskset: false },
      env: process.env,
    },
    { onState: () => {}, onFrame: () => {}, onOutput: () => {}, ...events },
    clock,
  );
  t.after(() => {
    child.kill(null);
    return allGone();
  });
  return child;
}

async function causeOfDeath(child: Child): Promise<string> {
  await until('the child is dead', () => child.state.tag === 'dead');
  return child.state.tag === 'dead' ? child.state.error.message : '';
}

for (const kind of ['engine', 'worker'] as const) {
  test(`the ${kind} ends with a reason when it gets a frame of another process`, async (t) => {
    const states: string[] = [];
    const child = start(t, kind, { onState: ({ tag }) => states.push(tag) });
    child.send({ type: 'report', body: { state: 'ready' } });
    assert.match(await causeOfDeath(child), /does not take report frames/);
    assert.deepEqual(states, ['error', 'dead']);
  });
}

test('a frame that the parent cannot handle ends the child with that cause, and the parent lives on', async (t) => {
  const seen: string[] = [];
  const child = start(t, 'engine', {
    onFrame: ({ type }) => {
      seen.push(type);
      if (type === 'pong') throw new RangeError('cannot deal with it');
    },
  });
  child.send(BOOT);
  child.send({ type: 'ping', body: null });
  assert.equal(await causeOfDeath(child), 'cannot deal with it');
  assert.ok(seen.includes('pong'));
});

/** Blocks this process until another one has ended, which its parent has not noticed yet. */
function blockUntilEnded(pid: number | null | undefined): void {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  // The first of its threads may end before the others.
  const hasEnded = (): boolean =>
    /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')) && readdirSync(`/proc/${pid}/task`).length === 1;
  while (!hasEnded()) Atomics.wait(pause, 0, 0, 5);
}

test('the message right before the end of a child is its last words, and earlier ones are output', async (t) => {
  const entry = join(folderFor(t), 'dies.mjs');
  writeFileSync(entry, "console.error('loading'); console.error('no weights'); process.exit(7);");
  const output: [stream: string, level: string, message: string][] = [];
  // Its moments pass only when the test says so: none does between the last line and the end.
  const child = startFile(
    t,
    entry,
    { onOutput: (stream, message) => void output.push([stream, levelOfOutput(stream), message]) },
    new FakeClock(),
  );
  assert.match(await causeOfDeath(child), /exited with code 7: no weights/);
  assert.deepEqual(output, [
    ['stderr', 'info', 'loading'],
    ['last words', 'warn', 'no weights'],
  ]);
});

test('a child whose end is noticed late, and before its last words are read, has these as its cause', {
  skip: process.platform !== 'linux' && 'only Linux tells which processes have ended',
}, async (t) => {
  let now = 0;
  // A machine on which seconds pass between two steps of this process.
  const late: Clock = {
    now: () => (now += 10_000),
    at: (_at, wake) => systemClock.at(systemClock.now() + 1, wake),
  };
  const child = start(t, 'worker', {}, late);
  await until('it has started', () => child.signs > 0);
  // Node.js asks for all children that have ended when it hears of one, after it has read what had arrived before.
  const other = spawn('sh', ['-c', 'echo here']);
  other.stdout.on('data', () => {
    child.send({ type: 'report', body: { state: 'ready' } });
    blockUntilEnded(child.pid);
  });
  blockUntilEnded(other.pid);
  assert.match(await causeOfDeath(child), /does not take report frames/);
});

/** Programs without the mark by which they would be found and killed with their parent. */
const LEAVES_OPEN = {
  'a program that it started': `
    import { spawn } from 'node:child_process';
    const env = { ...process.env, MODELET_PROCESS_TREE: '' };
    spawn('sleep', ['600'], { env, detached: true, stdio: ['ignore', 'ignore', 'ignore', 3] });`,
  'a copy that Python made of itself': `
    import { spawnSync } from 'node:child_process';
    const code = 'import os, time\\nif os.fork() == 0:\\n  os.setsid()\\n  time.sleep(600)';
    const env = { ...process.env, MODELET_PROCESS_TREE: '' };
    spawnSync('python3', ['-c', code], { env, stdio: ['ignore', 'ignore', 'ignore', 3] });`,
} as const;

for (const [what, leave] of Object.entries(LEAVES_OPEN)) {
  test(`a child that ends is dead at once and all its frames have arrived, though ${what} has its channel open`, async (t) => {
    const folder = folderFor(t);
    const program = join(folder, 'program.mjs');
    const frames = pathToFileURL(join(repositoryRoot, 'dist', 'src', 'wire', 'frames', 'frames.js')).href;
    const buildId = pathToFileURL(join(repositoryRoot, 'dist', 'src', 'process', 'build-id.js')).href;
    writeFileSync(
      program,
      `import { writeSync } from 'node:fs';
      import { encodeFrame } from '${frames}';
      import { BUILD_ID } from '${buildId}';
      ${leave}
      const send = (frame) => encodeFrame(frame).forEach((part) => writeSync(3, part));
      send({ type: 'report', body: { state: 'startup', build: BUILD_ID } });
      for (let index = 0; index < 1000; index += 1) send({ type: 'log', body: { level: 'info', message: 'x'.repeat(5000) } });
      process.exit(7);`,
    );
    let told = 0;
    const child = new ChildProcess(
      {
        command: [process.execPath, program],
        entry: program,
        cpus: null,
        launcher: { setpriv: false, taskset: false },
        env: process.env,
      },
      {
        onState: () => {},
        onOutput: () => {},
        onFrame: () => {
          told += 1;
        },
      },
      // No time passes: whatever would wait for some waits for ever.
      new FakeClock(),
    );
    t.after(killStarted);
    assert.equal(await causeOfDeath(child), 'exited with code 7');
    assert.equal(told, 1000);
    assert.equal(startedProcesses().length, 1, 'the other one lives on');
    killStarted();
    await allGone();
  });
}
