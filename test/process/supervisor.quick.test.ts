/** When a supervisor starts a process and when it does not, with processes that the test makes live and die. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Deadline } from '../../src/core/clock.ts';
import type { Child, ChildEvents } from '../../src/process/parent/child.ts';
import { type ProcessState, StateMachine } from '../../src/process/parent/child.ts';
import { type LifePhase, Supervisor } from '../../src/process/parent/supervisor.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

class FakeChild implements Child {
  /** As a thread: the system tells nothing of its memory. */
  readonly pid = process.pid;
  readonly isReachable = true;
  readonly traffic = null;
  signs = 0;
  readonly #machine: StateMachine;

  constructor(events: ChildEvents) {
    this.#machine = new StateMachine((state) => events.onState(state, this));
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  send(): void {}

  close(deadline: Deadline): void {
    if (!this.#machine.enter({ tag: 'shutdown', deadline })) this.kill(new Error('closed'));
  }

  kill(reason: Error | null): void {
    this.die(reason?.message ?? 'killed');
  }

  becomeReady(): void {
    this.#machine.enter({ tag: 'ready', since: 0 });
  }

  die(message = 'died'): void {
    this.#machine.enter({ tag: 'dead', error: new Error(message) });
  }
}

class Rig {
  readonly clock: FakeClock = new FakeClock();
  readonly children: FakeChild[] = [];
  readonly losses: LifePhase[] = [];
  readonly supervisor: Supervisor = new Supervisor(
    {
      startTimeoutMs: 5000,
      launch: (events) => {
        const child = new FakeChild(events);
        this.children.push(child);
        return child;
      },
      bootFrame: () => ({ type: 'cancel', body: [] }),
      onReady: () => {},
      onFrame: () => {},
      onLost: (_error, phase) => this.losses.push(phase),
      onChange: () => {},
      onLog: () => {},
    },
    this.clock,
  );

  get starts(): number {
    return this.children.length;
  }

  get child(): FakeChild {
    return this.children.at(-1) as FakeChild;
  }

  /** Lets time pass until the next timer, such as the timer that ends the pause before a start. */
  nextTry(): void {
    this.clock.advance(this.clock.nextAt - this.clock.now());
  }

  /** Lets it fail to start so often that the next try is far away. */
  failing(times: number): void {
    for (let time = 0; time < times; time += 1) {
      if (time > 0) this.nextTry();
      this.child.die('does not start');
    }
  }
}

test('start ends the pause before a restart and resets the pauses', () => {
  const rig = new Rig();
  rig.supervisor.start();
  rig.failing(8);
  assert.equal(rig.starts, 8);
  rig.clock.advance(1000);
  assert.equal(rig.starts, 8, 'the pause is longer than a second by now');
  rig.supervisor.start();
  assert.equal(rig.starts, 9);
  rig.supervisor.start();
  assert.equal(rig.starts, 9, 'one at a time');
  rig.child.die();
  rig.clock.advance(0);
  assert.equal(rig.starts, 10, 'the first restart is immediate again');
});

test('hold prevents restarts until start, and a running process goes on', () => {
  const rig = new Rig();
  rig.supervisor.start();
  rig.child.becomeReady();
  rig.supervisor.hold();
  assert.equal(rig.supervisor.isReady, true);
  rig.child.die();
  rig.supervisor.hold();
  rig.clock.advance(600_000);
  assert.equal(rig.starts, 1);
  assert.equal(rig.supervisor.processState, 'error');
  rig.supervisor.start();
  assert.equal(rig.starts, 2);
});

test('a held process can still be closed', async () => {
  const rig = new Rig();
  rig.supervisor.start();
  rig.child.die();
  rig.supervisor.hold();
  await rig.supervisor.close(rig.clock.now() + 1000);
  rig.supervisor.start();
  rig.supervisor.hold();
  rig.clock.advance(600_000);
  assert.equal(rig.starts, 1);
});

test('a supervisor has at most one timer over many restarts', () => {
  const rig = new Rig();
  rig.supervisor.start();
  for (let life = 0; life < 200; life += 1) {
    assert.equal(rig.clock.pending, 1, 'it has to be ready in time');
    rig.child.becomeReady();
    assert.equal(rig.clock.pending, 0);
    rig.child.die();
    assert.equal(rig.clock.pending, 1, 'it is started again');
    rig.nextTry();
  }
  assert.equal(rig.starts, 201);
  void rig.supervisor.close(0);
  assert.equal(rig.clock.pending, 0);
});

test('a process that is not ready in time is killed and counts as a failed start', () => {
  const rig = new Rig();
  rig.supervisor.start();
  rig.clock.advance(5000);
  assert.deepEqual(rig.losses, ['starting']);
  assert.equal(rig.supervisor.lastError?.message, 'was not ready within 5000 ms: 5 s so far; the next try has 10 s');
});

test('signs of life keep a start from being killed, and the time of a silent one is doubled for the next', () => {
  const rig = new Rig();
  rig.supervisor.start();
  for (let second = 0; second < 60; second += 1) {
    rig.clock.advance(1000);
    if (second % 3 === 0) rig.child.signs += 1;
  }
  assert.equal(rig.starts, 1, 'it prints every few seconds');
  rig.clock.advance(10_000);
  assert.match(
    rig.supervisor.lastError?.message ?? '',
    /^was not ready within 5000 ms: 6\d(\.\d+)? s so far, the last sign of progress 5 s ago; the next try has 10 s$/,
  );
  assert.equal(rig.starts, 2);
  const nextLoss = (): void => {
    for (const before = rig.losses.length; rig.losses.length === before; ) rig.nextTry();
  };
  for (const limit of [10, 20, 40, 80, 80, 80]) {
    nextLoss();
    assert.match(rig.supervisor.lastError?.message ?? '', new RegExp(`^was not ready within ${limit}000 ms`));
    rig.supervisor.start();
  }
  rig.child.becomeReady();
  rig.child.die();
  nextLoss();
  assert.match(rig.supervisor.lastError?.message ?? '', /^was not ready within 5000 ms/, 'a success begins anew');
});
