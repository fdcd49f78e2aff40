/** Between which stages a full queue holds back: not between those on a circle of routes, which would stand still. */
import type { EnginePlan, Route } from '../core/model.ts';

export class HoldBack {
  readonly #steps: ReadonlySet<string>;

  /**
   * Earlier routes do not keep planned ones from holding back, also when nobody comes on them any more. Both sets of
   * steps together have no circle: a step of the second lies on none at all, and those of the first alone form none.
   */
  constructor({ routes, earlier = [] }: EnginePlan) {
    this.#steps = new Set([...withoutCircles(routes), ...withoutCircles([...routes, ...earlier])]);
  }

  holds(from: number, to: number): boolean {
    return this.#steps.has(step(from, to));
  }
}

function step(from: number, to: number): string {
  return `${from}>${to}`;
}

/** The steps from stage to stage that lie on no circle. Two routes may pass the same stages in opposite order. */
function withoutCircles(routes: readonly Route[]): string[] {
  const steps = routes.flatMap(({ stages }) =>
    stages.slice(1).map((to, index) => [stages[index] as number, to] as const),
  );
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
