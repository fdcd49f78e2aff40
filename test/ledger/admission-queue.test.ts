/** Patient requests wait at the door of a stage that has no room, and each passes it at most once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AdmissionQueue } from '../../src/runtime/desk/admission-queue.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { item } from '../wire/frame-values.ts';

const ANY_STAGE = 1;

function open(mostWaiting = 0): { entrance: AdmissionQueue; sent: number[] } {
  const sent: number[] = [];
  return { entrance: new AdmissionQueue(mostWaiting, ({ id }) => sent.push(id)), sent };
}

function request(id: number, priority = 0): WireItem {
  return item({ id, priority, patient: true });
}

test('the queue lets as many requests pass as its limit, and the next when one has settled', () => {
  const { entrance, sent } = open();
  for (const id of [1, 2, 3, 4]) entrance.enter(request(id), ANY_STAGE, 2);
  assert.deepEqual([sent, entrance.waiting], [[1, 2], 2]);
  entrance.leave(2, () => 2);
  assert.deepEqual([sent, entrance.waiting], [[1, 2, 3], 1]);
  entrance.leave(1, () => 2);
  entrance.leave(1, () => 2);
  assert.deepEqual([sent, entrance.waiting], [[1, 2, 3, 4], 0]);
});

test('a limit that has grown lets waiting requests pass at once', () => {
  const { entrance, sent } = open();
  for (const id of [1, 2, 3, 4]) entrance.enter(request(id), ANY_STAGE, 1);
  entrance.grown(() => 3);
  assert.deepEqual([sent, entrance.waiting], [[1, 2, 3], 1]);
  entrance.leave(1, () => 3);
  assert.deepEqual([sent, entrance.waiting], [[1, 2, 3, 4], 0]);
});

test('a higher priority passes first, and no request overtakes waiting ones of its priority', () => {
  const { entrance, sent } = open();
  entrance.enter(request(1), ANY_STAGE, 1);
  for (const [id, priority] of [
    [2, 0],
    [3, 5],
    [4, 0],
  ] as const)
    entrance.enter(request(id, priority), ANY_STAGE, 1);
  entrance.enter(request(5), ANY_STAGE, 9);
  assert.deepEqual(sent, [1]);
  for (const id of [1, 3, 2, 4]) entrance.leave(id, () => 1);
  assert.deepEqual(sent, [1, 3, 2, 4, 5]);
});

test('each stage has its own limit', () => {
  const { entrance, sent } = open();
  entrance.enter(request(1), 1, 1);
  entrance.enter(request(2), 1, 1);
  entrance.enter(request(3), 2, 1);
  assert.deepEqual(sent, [1, 3]);
  assert.deepEqual([entrance.waitingAt(1), entrance.waitingAt(2), entrance.waitingAt(3)], [[2], [], []]);
  entrance.leave(3, () => 1);
  assert.deepEqual(sent, [1, 3]);
});

test('a request that settles while it waits never passes and takes no place', () => {
  const { entrance, sent } = open();
  for (const id of [1, 2, 3]) entrance.enter(request(id), ANY_STAGE, 1);
  assert.ok(entrance.isWaiting(2) && !entrance.isWaiting(1));
  entrance.leave(2, () => 1);
  assert.deepEqual([sent, entrance.waiting, entrance.isWaiting(2)], [[1], 1, false]);
  entrance.leave(1, () => 1);
  assert.deepEqual(sent, [1, 3]);
});

test('the queue reports the routes of waiting requests, not of passed or settled ones', () => {
  const { entrance } = open();
  const routes = [10, 11, 12, 12, 13];
  for (const [index, ref] of routes.entries()) {
    entrance.enter(item({ id: index + 1, routeRef: ref, patient: true }), ref === 13 ? 2 : 1, 1);
  }
  entrance.enter(item({ id: 6, routeRef: 14, patient: true }), 2, 1);
  assert.deepEqual(entrance.routes, new Set([11, 12, 14]));
  entrance.leave(3, () => 1);
  assert.deepEqual(entrance.routes, new Set([11, 12, 14]));
  entrance.leave(4, () => 1);
  entrance.leave(1, () => 1);
  assert.deepEqual(entrance.routes, new Set([14]));
});

test('a larger limit lets more pass at the next settlement', () => {
  const { entrance, sent } = open();
  for (const id of [1, 2, 3, 4]) entrance.enter(request(id), ANY_STAGE, 1);
  entrance.leave(1, () => 3);
  assert.deepEqual(sent, [1, 2, 3, 4]);
});

test('the queue refuses a request beyond its capacity, unless the request need not wait', () => {
  const { entrance } = open(2);
  assert.equal(entrance.check(ANY_STAGE, 1), null);
  for (const id of [1, 2, 3]) entrance.enter(request(id), ANY_STAGE, 1);
  assert.equal(entrance.check(ANY_STAGE, 1)?.code, 'capacity_exceeded');
  assert.match(entrance.check(ANY_STAGE, 1)?.message ?? '', /nodeMessageBufferMaxLength/);
  assert.equal(entrance.check(ANY_STAGE + 1, 1), null);
  entrance.leave(3, () => 1);
  assert.equal(entrance.check(ANY_STAGE, 1), null);
});

test('leaving without having entered has no effect', () => {
  const { entrance, sent } = open();
  entrance.enter(request(1), ANY_STAGE, 1);
  entrance.enter(request(2), ANY_STAGE, 1);
  entrance.leave(99, () => 1);
  assert.deepEqual([sent, entrance.waiting], [[1], 1]);
});

type Step =
  | { readonly do: 'enter'; readonly stage: number; readonly priority: number }
  | { readonly do: 'leave'; readonly which: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.nat({ max: 2 }), fc.nat({ max: 2 })).map(([stage, priority]): Step => ({ do: 'enter', stage, priority })),
  fc.nat({ max: 40 }).map((which): Step => ({ do: 'leave', which })),
);

test('any sequence of requests: at most the limit is inside, each is sent once, and none waits while there is room', () => {
  const limit = 3;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const { entrance, sent } = open();
      const stageOf = new Map<number, number>();
      const gone = new Set<number>();
      for (const what of steps) {
        if (what.do === 'enter') {
          const id = stageOf.size + 1;
          stageOf.set(id, what.stage);
          entrance.enter(request(id, what.priority), what.stage, limit);
        } else if (stageOf.size > 0) {
          const id = 1 + (what.which % stageOf.size);
          gone.add(id);
          entrance.leave(id, () => limit);
        }
        assert.equal(new Set(sent).size, sent.length);
        let waiting = 0;
        for (const stage of [0, 1, 2]) {
          const here = [...stageOf.keys()].filter((id) => stageOf.get(id) === stage && !gone.has(id));
          const inside = here.filter((id) => sent.includes(id));
          assert.ok(inside.length <= limit);
          if (inside.length < limit) assert.equal(here.length, inside.length, 'one waits before an open door');
          assert.deepEqual(new Set(entrance.waitingAt(stage)), new Set(here.filter((id) => !sent.includes(id))));
          waiting += here.length - inside.length;
        }
        assert.equal(entrance.waiting, waiting);
      }
    }),
    { numRuns: 300 },
  );
});
