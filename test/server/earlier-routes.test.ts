/** The engine is given the routes of earlier deploys on which requests still wait, and no others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EnginePlan } from '../../src/config/stage-definition.ts';
import type { Route } from '../../src/core/routes/route.ts';
import { withEarlierRoutes } from '../../src/runtime/service/planner.ts';
import { route, stage } from '../engine/rig.ts';

const NO_CLIENT: ReadonlySet<number> = new Set();

function plan(...routes: readonly Route[]): EnginePlan {
  return { stages: [stage(1), stage(2)], routes };
}

function refs(routes: readonly Route[] = []): number[] {
  return routes.map(({ ref }) => ref);
}

test('the plan includes a dropped route unchanged while a request waits for it', () => {
  const before = plan(route(7, [1], [1]), route(8, [2]));
  const given = withEarlierRoutes(plan(route(9, [1, 2])), before, new Set([7]));
  assert.deepEqual(refs(given.routes), [9]);
  assert.deepEqual(given.earlier, [route(7, [1], [1])]);
  assert.equal(given.stages.length, 2);
});

test('a planned route is included once', () => {
  const given = withEarlierRoutes(plan(route(7, [1])), plan(route(7, [1])), new Set([7]));
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[7], []]);
});

test('a dropped route stays over deploys while a request waits for it, and disappears when none waits', () => {
  const waitedFor = new Set([7]);
  let given = withEarlierRoutes(plan(route(8, [1, 2])), plan(route(7, [1])), waitedFor);
  given = withEarlierRoutes(plan(route(9, [2, 1])), given, waitedFor);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[9], [7]]);
  given = withEarlierRoutes(plan(route(7, [1])), given, waitedFor);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[7], []]);
  given = withEarlierRoutes(plan(route(9, [2, 1])), given, waitedFor);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[9], [7]]);
  given = withEarlierRoutes(plan(route(9, [2, 1])), given, NO_CLIENT);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[9], []]);
});

test('many deploys leave no dropped routes behind', () => {
  let given = plan();
  for (let ref = 1; ref <= 100; ref += 1) {
    given = withEarlierRoutes(plan(route(ref, [1])), given, new Set([ref - 1, ref]));
    assert.ok(refs(given.earlier).every((earlier) => earlier === ref - 1));
  }
  assert.deepEqual(refs(given.earlier), [99]);
});
