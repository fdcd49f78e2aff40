/** The live view of the sidebar goes to editors that look and may, and to nobody else. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { INTERVAL_MS, LEASE_MS, LiveView } from '../../src/node-red/admin/live-view.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

interface Bed {
  readonly clock: FakeClock;
  readonly live: LiveView;
  /** Sessions that were told, in order; emptied when it is read. */
  told(): string[];
  /** How often it has looked at the runtimes. */
  looks(): number;
}

function bed(): Bed {
  const clock = new FakeClock();
  const sessions: string[] = [];
  let looks = 0;
  const live = new LiveView({
    clock,
    measure: () => {
      looks += 1;
      return [];
    },
    around: () => ({ chains: [], gates: [], loop: null, allowedCpus: [0], serverCpus: null, engineCpus: () => null }),
    publish: (session) => sessions.push(session),
  });
  return { clock, live, told: () => sessions.splice(0), looks: () => looks };
}

describe('the live view', () => {
  test('costs nothing before somebody looks', () => {
    const { clock, looks } = bed();
    clock.advance(60_000);
    assert.deepEqual([looks(), clock.pending], [0, 0]);
  });

  test('comes at once, and then once a second', () => {
    const { clock, live, told } = bed();
    live.watch('one', live.ticket());
    assert.deepEqual(told(), ['one']);
    clock.advance(3 * INTERVAL_MS);
    assert.deepEqual(told(), ['one', 'one', 'one']);
  });

  test('needs a ticket, which is good for one connection and not for long', () => {
    const { clock, live, told, looks } = bed();
    live.watch('guest', 'made up');
    const ticket = live.ticket();
    const late = live.ticket();
    live.watch('one', ticket);
    live.watch('two', ticket);
    live.leave('one');
    clock.advance(LEASE_MS);
    live.watch('three', late);
    assert.deepEqual([told(), looks(), clock.pending], [['one'], 1, 0]);
  });

  test('ends for a connection that does not ask anew, and goes on for one that does', () => {
    const { clock, live, told } = bed();
    live.watch('one', live.ticket());
    live.watch('two', live.ticket());
    clock.advance(LEASE_MS / 2);
    live.watch('two', live.ticket());
    told();
    clock.advance(LEASE_MS);
    const after = told();
    assert.equal(after.filter((session) => session === 'one').length, LEASE_MS / 2 / INTERVAL_MS - 1);
    assert.equal(after.filter((session) => session === 'two').length, LEASE_MS / INTERVAL_MS - 1);
    assert.equal(clock.pending, 0);
    assert.equal(live.isWatched, false);
  });

  test('stops at once when the last one leaves', () => {
    const { clock, live, told, looks } = bed();
    live.watch('one', live.ticket());
    live.watch('two', live.ticket());
    live.leave('one');
    clock.advance(INTERVAL_MS);
    assert.deepEqual(told(), ['one', 'two', 'two']);
    live.leave('two');
    live.leave('two');
    const until = looks();
    clock.advance(60_000);
    assert.deepEqual([told(), looks(), clock.pending], [[], until, 0]);
  });

  test('keeps a bounded number of tickets', () => {
    const { live, told } = bed();
    const first = live.ticket();
    for (let count = 0; count < 1000; count += 1) live.ticket();
    live.watch('one', first);
    assert.deepEqual(told(), []);
  });
});
