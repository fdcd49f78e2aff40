/** The five states of a child process: every pair of them, allowed or not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ProcessState, type ProcessStateTag, StateMachine, TRANSITIONS } from '../../src/process/parent/child.ts';

const STATES: Readonly<Record<ProcessStateTag, ProcessState>> = {
  startup: { tag: 'startup' },
  ready: { tag: 'ready', since: 1 },
  error: { tag: 'error', error: new Error('e') },
  shutdown: { tag: 'shutdown', deadline: 2 },
  dead: { tag: 'dead', error: new Error('d') },
};
const TAGS = Object.keys(STATES) as ProcessStateTag[];

/** The moves as the design has them, written out once more. */
const ALLOWED: ReadonlySet<string> = new Set([
  'startup>ready',
  'startup>error',
  'startup>dead',
  'ready>error',
  'ready>shutdown',
  'ready>dead',
  'error>shutdown',
  'error>dead',
  'shutdown>dead',
]);

/** A shortest way from startup to each state. */
const WAY: Readonly<Record<ProcessStateTag, readonly ProcessStateTag[]>> = {
  startup: [],
  ready: ['ready'],
  error: ['error'],
  shutdown: ['ready', 'shutdown'],
  dead: ['dead'],
};

function machineIn(tag: ProcessStateTag): { machine: StateMachine; entered: ProcessState[] } {
  const entered: ProcessState[] = [];
  const machine = new StateMachine((state) => entered.push(state));
  for (const step of WAY[tag]) machine.enter(STATES[step]);
  entered.length = 0;
  return { machine, entered };
}

for (const from of TAGS) {
  for (const to of TAGS) {
    const allowed = ALLOWED.has(`${from}>${to}`);
    test(`${from} -> ${to} is ${allowed ? 'entered and told once' : 'ignored'}`, () => {
      const { machine, entered } = machineIn(from);
      const before = machine.state;
      assert.equal(machine.enter(STATES[to]), allowed);
      assert.equal(machine.state, allowed ? STATES[to] : before);
      assert.deepEqual(entered, allowed ? [STATES[to]] : []);
      assert.equal(TRANSITIONS[from].includes(to), allowed);
    });
  }
}

test('any sequence of events makes only allowed transitions, and a dead process ends as dead', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...TAGS), { maxLength: 12 }), (steps) => {
      const seen: ProcessStateTag[] = ['startup'];
      const machine = new StateMachine((state) => seen.push(state.tag));
      for (const step of steps) machine.enter(STATES[step]);
      for (const [index, tag] of seen.slice(1).entries()) assert.ok(ALLOWED.has(`${seen[index]}>${tag}`));
      if (steps.includes('dead')) assert.equal(machine.state.tag, 'dead');
    }),
  );
});
