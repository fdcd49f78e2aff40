/**
 * Decides between which stages a full queue holds items back. Stages on a circle of routes never do that to each other:
 * they would deadlock.
 */
import type { EnginePlan } from '../../../config/stage-definition.ts';
import { legOf, type Route, stepsOf } from '../../../core/routes/route.ts';

export class Backpressure {
  readonly #steps: ReadonlySet<string>;

  /**
   * Planned routes hold items back even where an earlier route closes a circle with them: no request may come on the
   * earlier route again. The union of the two sets has no circle: a step of the second set lies on no circle at all,
   * and the steps of the first set alone form none.
   */
  constructor({ stages, routes, earlier = [] }: EnginePlan) {
    const refs = new Map(stages.map(({ id, ref }) => [id, ref]));
    const versions = new Map(
      stages.map((stage) => [stage.ref, stage.versions?.list.flatMap((one) => refs.get(one.stage) ?? []) ?? []]),
    );
    const allOf = (taken: readonly Route[]): RouteStep[] => taken.flatMap((route) => allSteps(route, versions));
    this.#steps = new Set([...withoutCircles(allOf(routes)), ...withoutCircles(allOf([...routes, ...earlier]))]);
  }

  /** Whether a full queue at `to` holds items back at `from`. */
  holds(from: number, to: number): boolean {
    return this.#steps.has(step(from, to));
  }
}

function step(from: number, to: number): string {
  return `${from}>${to}`;
}

type RouteStep = readonly [from: number, to: number];

/** Returns the steps of a route between its stages and their versions. */
function allSteps(route: Route, versions: ReadonlyMap<number, readonly number[]>): RouteStep[] {
  const at = (ref: number): number[] => [ref, ...(versions.get(ref) ?? [])];
  return stepsOf(legOf(route)).flatMap(([from, to]) =>
    at(from).flatMap((one) => at(to).map((next) => [one, next] as const)),
  );
}

/** Returns the steps that lie on no circle. Two routes may pass the same stages in opposite order and so form one. */
function withoutCircles(steps: readonly RouteStep[]): string[] {
  const following = new Map<number, number[]>();
  for (const [from, to] of steps) following.set(from, [...(following.get(from) ?? []), to]);
  const reaches = (from: number, target: number, seen = new Set<number>()): boolean => {
    if (from === target) return true;
    if (seen.has(from)) return false;
    seen.add(from);
    return (following.get(from) ?? []).some((next) => reaches(next, target, seen));
  };
  return steps.filter(([from, to]) => !reaches(to, from)).map(([from, to]) => step(from, to));
}
