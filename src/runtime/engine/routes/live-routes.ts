/** Resolves the routes of a plan: from the numbers of stages to the stages themselves. */
import { firstStages, type Leg, legOf, type Route } from '../../../core/routes/route.ts';
import type { LiveChoice, LiveFork, LiveLeg, LiveRoute, RouteStage } from '../stage/item.ts';

/** Returns the routes whose stages all exist, by number. */
export function liveRoutes(routes: readonly Route[], stages: ReadonlyMap<number, RouteStage>): Map<number, LiveRoute> {
  const live = new Map<number, LiveRoute>();
  for (const route of routes)
    if (route.stages.every((ref) => stages.has(ref))) live.set(route.ref, resolve(route, stages));
  return live;
}

/** Returns a separate route for one stage, so that no other route waits for its items. */
export function soleRoute(stage: RouteStage): LiveRoute {
  return resolve({ ref: 0, stages: [stage.ref], taps: [] }, new Map([[stage.ref, stage]]));
}

function resolve(route: Route, stages: ReadonlyMap<number, RouteStage>): LiveRoute {
  const all = (refs: readonly number[]): RouteStage[] => refs.map((ref) => stages.get(ref) as RouteStage);
  const live: { -readonly [Key in keyof LiveRoute]: LiveRoute[Key] } = {
    ...{ ref: route.ref, stages: all(route.stages), open: 0, forEngine: route.forEngine === true },
    leg: undefined as never,
  };
  const isTapped = (ref: number): boolean => route.taps.includes(ref);
  /** @param behind the stages behind the leg */
  const legWith = (leg: Leg, behind: readonly number[]): LiveLeg => ({
    route: live,
    stages: all(leg.stages),
    tapped: leg.stages.map(isTapped),
    next: leg.next && nextWith(leg.next, behind),
    following: all(firstStages({ stages: [], next: leg.next }, behind)),
  });
  const nextWith = (next: NonNullable<Leg['next']>, behind: readonly number[]): LiveFork | LiveChoice => {
    if (next.kind === 'choice') return { ...next, ways: next.ways.map((way) => legWith(way, behind)) };
    const past = firstStages(next.after, behind);
    return {
      ...next,
      tapped: isTapped(next.gather),
      branches: next.branches.map((branch) => legWith(branch, past)),
      after: legWith(next.after, behind),
    };
  };
  live.leg = legWith(legOf(route), []);
  return live;
}
