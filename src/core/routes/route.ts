/**
 * The way of a request through the stages of a runtime, as plain data. The compiler writes routes with the ids of nodes,
 * the planner turns these into numbers, and the engine follows them.
 *
 * A route is a leg: stages one after the other, and perhaps what follows the last of them. At a fork, copies of the item
 * pass several legs at the same time, or the items of its list pass one leg, and a node gathers their results. At a choice,
 * a value of the item decides which leg it goes on with.
 */
import type { Outcome, Payload, StageTiming } from '../model.ts';
import type { GatherReport, GatherTerms } from './gather.ts';

/** `Id`: how a stage, or a node that gathers branches, is named: the id of its node, or its number. */
export interface Leg<Id = number> {
  /** Stages in order; may be empty. */
  readonly stages: readonly Id[];
  readonly next: Fork<Id> | Choice<Id> | null;
}

export interface Fork<Id = number> {
  readonly kind: 'fork';
  /** The node that gathers the results. The errors of the branches are its own, and so are those of the leg before. */
  readonly gather: Id;
  readonly terms: GatherTerms;
  /** Longest wait after the first branch has come, in ms. */
  readonly timeoutMs: number;
  /**
   * In the order of `terms.names`. An empty leg passes on the value as it is. If the mode is `list`, the only branch is the
   * way of each item.
   */
  readonly branches: readonly Leg<Id>[];
  readonly after: Leg<Id>;
}

export interface Choice<Id = number> {
  readonly kind: 'choice';
  /** Path in the value to look at; empty: the value itself. */
  readonly path: readonly string[];
  /** At least one; the last holds for every value. */
  readonly rules: readonly ChoiceRule[];
  /** One for each rule. */
  readonly ways: readonly Leg<Id>[];
}

/** A rule of Node-RED's switch node, by its names. The first that holds decides. */
export interface ChoiceRule {
  readonly operator: ChoiceOperator;
  /** Values to compare with; null if the operator has none. */
  readonly value: RuleValue;
  /** The second limit of `btwn`. */
  readonly limit: RuleValue;
}

export type RuleValue = string | number | boolean | null;

export const CHOICE_OPERATORS = [
  ...(['eq', 'neq', 'lt', 'lte', 'gt', 'gte', 'btwn', 'cont', 'hask', 'istype'] as const),
  ...(['true', 'false', 'null', 'nnull', 'empty', 'nempty', 'else'] as const),
] as const;
export type ChoiceOperator = (typeof CHOICE_OPERATORS)[number];

/** An outcome as the engine returns it: the value is still encoded, and each stage adds its timing. */
export interface Settlement {
  readonly outcome: Outcome<Payload>;
  readonly timings: readonly StageTiming[];
  /** The report of the nodes that gather branches on its route; null: no such node. */
  readonly gathered: GatherReport | null;
}

/** The compiled way of a request from one entry. */
export interface Route {
  readonly ref: number;
  /** All stages, as drawn; at least one. */
  readonly stages: readonly number[];
  /** Refs of the stages and gathering nodes whose values also go to nodes outside the route. */
  readonly taps: readonly number[];
  /** The way from stage to stage; absent: one after the other. */
  readonly leg?: Leg;
  /**
   * Whether results go to another engine, from a worker host: a list leaves as its stage has marked it, an item of a key with
   * the state that it has left.
   */
  readonly forEngine?: true;
}

export function legOf({ leg, stages }: Pick<Route, 'leg' | 'stages'>): Leg {
  return leg ?? { stages, next: null };
}

/** Returns the leg with other names for its stages and gathering nodes. */
export function renamed<From, To>({ stages, next }: Leg<From>, to: (id: From) => To): Leg<To> {
  const inner = (leg: Leg<From>): Leg<To> => renamed(leg, to);
  return { stages: stages.map(to), next: next && renamedNext(next, to, inner) };
}

function renamedNext<From, To>(
  next: Fork<From> | Choice<From>,
  to: (id: From) => To,
  inner: (leg: Leg<From>) => Leg<To>,
): Fork<To> | Choice<To> {
  if (next.kind === 'choice') return { ...next, ways: next.ways.map(inner) };
  return { ...next, gather: to(next.gather), branches: next.branches.map(inner), after: inner(next.after) };
}

/** Returns the legs behind the stages of a leg. */
function further<Id>({ next }: Leg<Id>): readonly Leg<Id>[] {
  if (!next) return [];
  return next.kind === 'choice' ? next.ways : [...next.branches, next.after];
}

/** Returns all stages of a leg, each once, as drawn. */
export function stagesOf<Id>(leg: Leg<Id>): Id[] {
  return [...new Set([...leg.stages, ...further(leg).flatMap(stagesOf)])];
}

/** Returns the nodes that gather branches on a leg, each once. */
export function gathersOf<Id>(leg: Leg<Id>): Id[] {
  const own = leg.next?.kind === 'fork' ? [leg.next.gather] : [];
  return [...new Set([...own, ...further(leg).flatMap(gathersOf)])];
}

/** Returns the stages at which an item enters a leg. @param behind those behind the leg, for one without stages */
export function firstStages<Id>({ stages, next }: Leg<Id>, behind: readonly Id[] = []): readonly Id[] {
  const [first] = stages;
  if (first !== undefined) return [first];
  return next ? [...new Set(stagesBehind(next, behind))] : behind;
}

function stagesBehind<Id>(next: Fork<Id> | Choice<Id>, behind: readonly Id[]): Id[] {
  const legs = next.kind === 'choice' ? next.ways : next.branches;
  const past = next.kind === 'choice' ? behind : firstStages(next.after, behind);
  return legs.flatMap((leg) => firstStages(leg, past));
}

/** Returns the steps of a leg from stage to stage. @param behind the stages behind the leg */
export function stepsOf<Id>({ stages, next }: Leg<Id>, behind: readonly Id[] = []): (readonly [from: Id, to: Id])[] {
  const inRow = stages.slice(1).map((to, index) => [stages[index] as Id, to] as const);
  const last = stages.at(-1);
  const following = next ? stagesBehind(next, behind) : behind;
  const onward = last === undefined ? [] : following.map((to) => [last, to] as const);
  if (!next) return [...inRow, ...onward];
  if (next.kind === 'choice') return [...inRow, ...onward, ...next.ways.flatMap((way) => stepsOf(way, behind))];
  const past = firstStages(next.after, behind);
  const inBranches = next.branches.flatMap((branch) => stepsOf(branch, past));
  return [...inRow, ...onward, ...inBranches, ...stepsOf(next.after, behind)];
}

/** Returns how deep lists stand in the lists of a leg. */
export function listDepth<Id>({ next }: Leg<Id>): number {
  if (!next) return 0;
  if (next.kind === 'choice') return Math.max(...next.ways.map(listDepth));
  const inside = Math.max(...next.branches.map(listDepth)) + (next.terms.list ? 1 : 0);
  return Math.max(inside, listDepth(next.after));
}

/** Returns the nodes of a branch whose errors are the outcome of the branch: those that no inner node gathers. */
export function failingOn<Id>({ stages, next }: Leg<Id>): Id[] {
  if (next?.kind === 'fork') return [next.gather, ...failingOn(next.after)];
  return [...stages, ...(next?.ways.flatMap(failingOn) ?? [])];
}
