/**
 * Keeps the engine's plan: gives stages and routes the numbers by which frames know them, and keeps those over
 * deploys, so that what did not change is recognised.
 */
import { createHash } from 'node:crypto';
import type { EnginePlan, LogRecord, Route, StageDefinition } from '../core/model.ts';

/** A stage as the deploy describes it; the planner adds its number and revision. */
export type PlannedStage = Omit<StageDefinition, 'ref' | 'revision'>;

export interface PlannedRoute {
  /** The node at which messages enter. */
  readonly entry: string;
  /** Stage ids. */
  readonly stages: readonly string[];
  /** By stage id: who else wants its value; absent for a stage that nobody looks at. */
  readonly taps?: ReadonlyMap<string, readonly string[]>;
}

export interface KnownStage {
  readonly id: string;
  readonly name: string;
}

export class Planner {
  readonly #numbers: Map<string, number> = new Map();
  readonly #known: Map<number, KnownStage> = new Map();
  #plan: EnginePlan = { stages: [], routes: [] };
  #entries: ReadonlyMap<string, Route> = new Map();
  /** Stages that are as in the plan before, and keep their workers. */
  #kept = 0;

  get plan(): EnginePlan {
    return this.#plan;
  }

  /** What the last deploy amounts to. */
  describe(): LogRecord {
    const fields = { stages: this.#plan.stages.length, routes: this.#plan.routes.length, kept: this.#kept };
    const kept = fields.kept > 0 ? `; ${fields.kept} of the stages kept their workers` : '';
    return { level: 'info', message: `deployed: stages ${fields.stages}, routes ${fields.routes}${kept}`, fields };
  }

  /** Makes the plan of a deploy. */
  compile(stages: readonly PlannedStage[], routes: readonly PlannedRoute[]): EnginePlan {
    const definitions = stages.map((stage) => this.#define(stage));
    const refs = new Map(definitions.map(({ id, ref }) => [id, ref]));
    const entries = new Map<string, Route>();
    for (const route of routes) {
      const chain = route.stages.map((stage) => refs.get(stage) as number);
      const taps = route.stages.flatMap((stage) => (route.taps?.has(stage) ? (refs.get(stage) ?? []) : []));
      const ref = this.#number(`route ${chain.join('>')} tapped at ${taps.join()}`);
      entries.set(route.entry, { ref, stages: chain, taps });
    }
    this.#entries = entries;
    // Several nodes may lead into one route: a stage and the batcher before it.
    const distinct = new Map([...entries.values()].map((route) => [route.ref, route]));
    const revisions = new Map(this.#plan.stages.map(({ ref, revision }) => [ref, revision]));
    this.#kept = definitions.filter(({ ref, revision }) => revisions.get(ref) === revision).length;
    this.#plan = { stages: definitions, routes: [...distinct.values()] };
    return this.#plan;
  }

  /** The route of messages that enter at a node, and the stage they meet first. */
  entry(node: string): { readonly route: Route; readonly stage: number } | undefined {
    const route = this.#entries.get(node);
    const stage = route?.stages[0];
    return route && stage !== undefined ? { route, stage } : undefined;
  }

  /** The stage that a node is, or that stands behind it. */
  stageAt(node: string): number | undefined {
    return this.#plan.stages.find(({ id }) => id === node)?.ref ?? this.entry(node)?.stage;
  }

  /** A stage by its number, also one that a later deploy has removed. */
  stage(ref: number): KnownStage | undefined {
    return this.#known.get(ref);
  }

  /** Most patient requests on their way after entering at a stage: those that run and those that fit its queue. */
  roomAt(stage: number): number {
    const definition = this.#plan.stages.find(({ ref }) => ref === stage);
    if (!definition) return Number.POSITIVE_INFINITY;
    const { capacity, batching, modelet } = definition;
    return capacity + 2 * modelet.workers.length * batching.maxBatchSize;
  }

  #define(stage: PlannedStage): StageDefinition {
    const revision = createHash('sha256').update(JSON.stringify(stage.modelet)).digest('hex').slice(0, 16);
    const ref = this.#number(`stage ${stage.id}`);
    this.#known.set(ref, { id: stage.id, name: stage.name });
    return { ...stage, ref, revision };
  }

  #number(key: string): number {
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#numbers.size + 1;
    this.#numbers.set(key, number);
    return number;
  }
}

/**
 * Adds to a plan the earlier routes on which requests still wait on the server's side: those requests finish as they
 * began. Other earlier routes are dropped, so that nothing piles up over deploys.
 * @param before the plan that the engine was given last
 * @param waitedFor the numbers of the routes that requests wait for
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
