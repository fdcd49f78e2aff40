/** A child and its parent when one cannot deal with what the other sends: the cause is told, and only the child ends. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Child, ChildEvents } from '../../src/lifecycle/child.ts';
import { ChildProcess } from '../../src/lifecycle/child-process.ts';
import type { ControlFrame } from '../../src/wire/frames.ts';
import { allGone, until } from '../fixtures/processes.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const BOOT: ControlFrame = {
  type: 'boot',
  body: {
    runtime: 'runtime',
    maxPayloadBytes: 1024,
    allowedCpus: [],
    launcher: { setpriv: false, taskset: false },
    strictPins: false,
  },
};

function start(t: TestContext, kind: 'engine' | 'worker', events: Partial<ChildEvents> = {}): Child {
  const entry = join(repositoryRoot, 'dist', 'src', kind, 'main.js');
  const child = new ChildProcess(
    {
      command: [process.execPath, entry],
      entry,
      cpus: null,
      launcher: { setpriv: false, taskset: false },
      env: process.env,
    },
    { onState: () => {}, onFrame: () => {}, onOutput: () => {}, ...events },
  );
  t.after(() => {
    child.kill(null);
    return allGone();
  });
  return child;
}

async function causeOfDeath(child: Child): Promise<string> {
  await until(() => child.state.tag === 'dead', 'the child is dead');
  return child.state.tag === 'dead' ? child.state.error.message : '';
}

for (const kind of ['engine', 'worker'] as const) {
  test(`the ${kind} gets a frame that is not for it: it ends, and says why`, async (t) => {
    const states: string[] = [];
    const child = start(t, kind, { onState: ({ tag }) => states.push(tag) });
    child.send({ type: 'report', body: { state: 'ready' } });
    assert.match(await causeOfDeath(child), /does not take report frames/);
    assert.deepEqual(states, ['error', 'dead']);
  });
}

test('the parent cannot deal with a frame: the child ends, the error is the cause, and the parent lives on', async (t) => {
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
