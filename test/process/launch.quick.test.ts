/** Children whose process the system or Node.js refuses to start at once, and the helpers that start them. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { allowedCpus } from '../../src/process/affinity.ts';
import { ChildProcess } from '../../src/process/parent/child-process.ts';
import { type Launcher, launch, probeLauncher } from '../../src/process/parent/launch.ts';
import { Supervisor } from '../../src/process/parent/supervisor.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';

const PLAIN: Launcher = { setpriv: false, taskset: false };

interface Supervised {
  readonly supervisor: Supervisor;
  readonly clock: FakeClock;
  readonly losses: string[];
}

/** A supervisor of a real process. Only its pauses are those of the test. */
function supervised(t: TestContext, command: readonly string[], env: Record<string, string>): Supervised {
  const clock = new FakeClock();
  const losses: string[] = [];
  const supervisor = new Supervisor(
    {
      startTimeoutMs: 0,
      launch: (events) =>
        new ChildProcess({ command, entry: 'entry', cpus: null, launcher: PLAIN, env }, events, clock),
      bootFrame: () => ({ type: 'cancel', body: [] }),
      onReady: () => {},
      onFrame: () => {},
      onLost: (error, phase) => losses.push(`${phase}: ${error.message}`),
      onChange: () => {},
      onLog: () => {},
    },
    clock,
  );
  t.after(() => supervisor.close(0));
  return { supervisor, clock, losses };
}

const NODE = [process.execPath, '--version'];

const IMPOSSIBLE: readonly (readonly [string, readonly string[], Record<string, string>, RegExp])[] = [
  [
    'too large an environment',
    NODE,
    { A: 'x'.repeat(4_000_000) },
    /could not be started: .*E2BIG \(its environment is/,
  ],
  ['NUL in a value of the environment', NODE, { A: '\0' }, /could not be started: .*null bytes/],
  ['NUL in a name of the environment', NODE, { 'A\0': 'x' }, /could not be started: .*null bytes/],
  ['NUL in an argument', [process.execPath, '\0'], {}, /could not be started: .*null bytes/],
];

for (const [name, command, env, cause] of IMPOSSIBLE) {
  test(`${name}: the child counts as dead during its start, and the supervisor starts it again`, async (t) => {
    const { supervisor, clock, losses } = supervised(t, command, env);
    supervisor.start();
    for (let time = 1; time <= 3; time += 1) {
      await until('the loss is told', () => losses.length === time);
      assert.equal(supervisor.pid, null);
      assert.equal(supervisor.processState, 'error');
      assert.match(losses.at(-1) ?? '', cause);
      assert.match(losses.at(-1) ?? '', /^starting: /);
      clock.advance(supervisor.pauseMs);
    }
    assert.equal(supervisor.restarts, 3);
  });
}

test('a supervisor whose child could not be created closes at once', async (t) => {
  const { supervisor, losses } = supervised(t, NODE, { A: '\0' });
  supervisor.start();
  await supervisor.close(0);
  assert.match(losses.join(), /^closing: could not be started/);
});

test('the launcher finds its helpers whatever PATH the child gets', async (t) => {
  const granted = allowedCpus();
  const launcher = await probeLauncher(granted);
  if (!launcher.setpriv && !launcher.taskset) return t.skip('there are no launch helpers here');
  const command = [process.execPath, '-p', 'process.env.PATH'];
  const child = launch({ command, cpus: launcher.taskset ? granted : null, launcher, env: { PATH: '/nowhere' } });
  let output = '';
  child.stdout?.on('data', (data) => {
    output += data;
  });
  await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject));
  assert.equal(output, '/nowhere\n');
});
