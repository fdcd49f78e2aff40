/** The engine is given the routes of earlier deploys on which requests still wait, and no others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EnginePlan } from '../../src/config/schemas/stage-definition.ts';
import type { Route } from '../../src/core/model.ts';
import { withEarlierRoutes } from '../../src/server/planner.ts';
import { route, stage } from '../engine/rig.ts';

const NOBODY: ReadonlySet<number> = new Set();

function plan(...routes: readonly Route[]): EnginePlan {
  return { stages: [stage(1), stage(2)], routes };
}

function refs(routes: readonly Route[] = []): number[] {
  return routes.map(({ ref }) => ref);
}

test('a route that is waited for is given beside the plan, as it was', () => {
  const before = plan(route(7, [1], [1]), route(8, [2]));
  const given = withEarlierRoutes(plan(route(9, [1, 2])), before, new Set([7]));
  assert.deepEqual(refs(given.routes), [9]);
  assert.deepEqual(given.earlier, [route(7, [1], [1])]);
  assert.equal(given.stages.length, 2);
});

test('a route that is planned is given once', () => {
  const given = withEarlierRoutes(plan(route(7, [1])), plan(route(7, [1])), new Set([7]));
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[7], []]);
});

test('it is kept over deploys while one waits for it, planned again if one plans it, and gone when nobody waits', () => {
  const waitedFor = new Set([7]);
  let given = withEarlierRoutes(plan(route(8, [1, 2])), plan(route(7, [1])), waitedFor);
  given = withEarlierRoutes(plan(route(9, [2, 1])), given, waitedFor);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[9], [7]]);
  given = withEarlierRoutes(plan(route(7, [1])), given, waitedFor);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[7], []]);
  given = withEarlierRoutes(plan(route(9, [2, 1])), given, waitedFor);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[9], [7]]);
  given = withEarlierRoutes(plan(route(9, [2, 1])), given, NOBODY);
  assert.deepEqual([refs(given.routes), refs(given.earlier)], [[9], []]);
});

test('over many deploys nothing piles up', () => {
  let given = plan();
  for (let ref = 1; ref <= 100; ref += 1) {
    given = withEarlierRoutes(plan(route(ref, [1])), given, new Set([ref - 1, ref]));
    assert.ok(refs(given.earlier).every((earlier) => earlier === ref - 1));
  }
  assert.deepEqual(refs(given.earlier), [99]);
});
