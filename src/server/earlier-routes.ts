/**
 * A deploy may change a route on which requests began that still wait on the server's side. They finish as they began:
 * the engine is given their route with the new plan, too.
 */
import type { EnginePlan } from '../core/model.ts';

/**
 * The plan, with those earlier routes that requests still wait for: no others, so that nothing piles up over deploys.
 * @param before what the engine was given last.
 * @param waitedFor routes, by their numbers.
 */
export function withEarlierRoutes(
  { stages, routes }: EnginePlan,
  before: EnginePlan,
  waitedFor: ReadonlySet<number>,
): EnginePlan {
  const planned = new Set(routes.map(({ ref }) => ref));
  const given = [...before.routes, ...(before.earlier ?? [])];
  return { stages, routes, earlier: given.filter(({ ref }) => waitedFor.has(ref) && !planned.has(ref)) };
}
