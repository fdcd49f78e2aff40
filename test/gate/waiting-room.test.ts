/** The order of waiting requests, and their deadlines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type WaitingRequest, WaitingRoom } from '../../src/gate/waiting-room.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const NEVER = Number.POSITIVE_INFINITY;

type Step =
  | { readonly do: 'enter'; readonly priority: number; readonly deadline: number }
  | { readonly do: 'leave'; readonly which: number }
  | { readonly do: 'sweep' }
  | { readonly do: 'advance'; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('enter' as const),
      priority: fc.constantFrom(0, 0, 1, -1, 2.5, NEVER),
      deadline: fc.oneof(fc.constant(NEVER), fc.integer({ min: 900, max: 1500 })),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat({ max: 50 }) }) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'sweep' }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat({ max: 200 }) }) },
);

test('a waiting room behaves like a sorted list under any sequence of operations', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const clock = new FakeClock();
      const gone: number[] = [];
      const room: WaitingRoom<number> = new WaitingRoom(clock, () => gone.push(...room.sweep()));
      const all: WaitingRequest<number>[] = [];
      let expected: WaitingRequest<number>[] = [];
      const expire = (): void => {
        expected = expected.filter(({ deadline }) => deadline > clock.now());
      };
      for (const what of steps) {
        if (what.do === 'enter') {
          const place = room.enter(all.length, what.priority, what.deadline);
          all.push(place);
          expected.push(place);
        } else if (what.do === 'leave') {
          const place = all[what.which % Math.max(1, all.length)];
          if (place) assert.equal(room.leave(place), expected.includes(place));
          expected = expected.filter((other) => other !== place);
        } else if (what.do === 'sweep') {
          gone.push(...room.sweep());
          expire();
        } else {
          clock.advance(what.ms);
          expire();
        }
        const compare = (a: number, b: number): number => (a === b ? 0 : a - b);
        const [first] = expected.toSorted(
          (a, b) => compare(b.priority, a.priority) || compare(a.deadline, b.deadline) || a.number - b.number,
        );
        assert.equal(room.first, first);
        assert.equal(room.size, expected.length);
        assert.equal(room.oldestAt, expected[0]?.arrivedAt ?? null);
        assert.ok(clock.pending <= 1, 'one timer');
      }
      assert.equal(new Set(gone).size, gone.length, 'no request expires twice');
      assert.ok(gone.every((value) => (all[value]?.deadline ?? NEVER) <= clock.now()));
    }),
    { numRuns: 500 },
  );
});

test('a waiting room reports a deadline at its time, with one timer for all', () => {
  const clock = new FakeClock();
  const told: [number, number[]][] = [];
  const room: WaitingRoom<number> = new WaitingRoom(clock, () => told.push([clock.now(), room.sweep()]));
  room.enter(1, 0, 1500);
  room.enter(2, 9, 1300);
  room.enter(3, 0, NEVER);
  room.enter(4, 5, 1300);
  clock.advance(1000);
  assert.deepEqual(told, [
    [1300, [2, 4]],
    [1500, [1]],
  ]);
  assert.deepEqual([room.size, clock.pending], [1, 0]);
});
