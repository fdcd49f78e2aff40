/**
 * Compiles each deploy into the engine's plan. Gives stages and routes the numbers that frames refer to, and keeps the
 * numbers across deploys, so that the engine recognizes unchanged stages and routes.
 */
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import {
  type EnginePlan,
  type ModeletDefinition,
  type PlannedStage,
  roomOf,
  type StageDefinition,
} from '../../config/stage-definition.ts';
import type { EndpointSpec, ListenerSpec, ListenerTerms, PlannedEndpoint } from '../../core/endpoints.ts';
import type { LogRecord } from '../../core/model.ts';
import { type Leg, type Route, renamed } from '../../core/routes/route.ts';

export interface PlannedRoute extends Pick<Route, 'forEngine'> {
  /** Id of the node at which messages enter. */
  readonly entry: string;
  /** Stage ids. */
  readonly stages: readonly string[];
  /** The way from stage to stage. Default: one after the other. */
  readonly leg?: Leg<string>;
  /** Nodes that also receive a value, by the stage or gathering node that makes it. Others are absent. */
  readonly taps?: ReadonlyMap<string, readonly string[]>;
}

/** A node at which messages enter: its route, and the first stage on it. */
export interface RouteEntry {
  readonly route: Route;
  readonly stage: number;
}

export class Planner {
  readonly #numbers: Map<string, number> = new Map();
  readonly #known: Map<number, StageDefinition> = new Map();
  /** The last definition of each stage by its number, also of those that a later deploy removed. */
  readonly stages: ReadonlyMap<number, StageDefinition> = this.#known;
  /** Ids of the nodes that gather branches on routes, by number. */
  readonly #gathers: Map<number, string> = new Map();
  #plan: EnginePlan = { stages: [], routes: [] };
  readonly #entries: Map<string, RouteEntry> = new Map();
  /** The nodes at which messages enter. */
  readonly entries: ReadonlyMap<string, RouteEntry> = this.#entries;
  /** Number of stages that did not change in the last deploy and kept their workers. */
  #kept = 0;

  get plan(): EnginePlan {
    return this.#plan;
  }

  /** Returns a log record that sums up the last deploy. */
  describe(): LogRecord {
    const fields = { stages: this.#plan.stages.length, routes: this.#plan.routes.length, kept: this.#kept };
    const kept = fields.kept > 0 ? `; ${fields.kept} of the stages kept their workers` : '';
    return { level: 'info', message: `deployed: stages ${fields.stages}, routes ${fields.routes}${kept}`, fields };
  }

  /** Compiles the plan of a deploy. @param listener null: the engine does not listen */
  compile(
    stages: readonly PlannedStage[],
    routes: readonly PlannedRoute[],
    listener: (ListenerSpec & { readonly terms: ListenerTerms }) | null = null,
  ): EnginePlan {
    const definitions = stages.map((stage) => this.#define(stage));
    const refs = new Map(definitions.map(({ id, ref }) => [id, ref]));
    this.#entries.clear();
    for (const route of routes) {
      const numberOf = (id: string): number => refs.get(id) ?? this.#gather(id);
      const chain = route.stages.map(numberOf);
      const taps = [...(route.taps?.keys() ?? [])].map(numberOf);
      const leg = route.leg?.next ? renamed(route.leg, numberOf) : null;
      const lists = route.forEngine ? ({ forEngine: true } as const) : {};
      const key = `route ${chain.join('>')} tapped at ${taps.join()}${route.forEngine ? ' with lists' : ''}`;
      const ref = this.#number(leg ? `${key} ${JSON.stringify(leg)}` : key);
      const [stage] = chain;
      if (stage === undefined) continue;
      this.#entries.set(route.entry, { stage, route: { ref, stages: chain, taps, ...(leg ? { leg } : {}), ...lists } });
    }
    // Several nodes may lead to one route, for example a stage and the batcher before it.
    const distinct = new Map([...this.#entries.values()].map(({ route }) => [route.ref, route]));
    const revisions = new Map(this.#plan.stages.map(({ ref, revision }) => [ref, revision]));
    this.#kept = definitions.filter(({ ref, revision }) => revisions.get(ref) === revision).length;
    this.#plan = { stages: definitions, routes: [...distinct.values()] };
    if (listener) {
      const endpoints = listener.endpoints.flatMap((spec) => this.#endpoint(spec) ?? []);
      const { bytes, name } = listener.maxJson;
      // The plan crosses to the engine as JSON, which has no Infinity.
      const maxJson = { bytes: Math.min(bytes, Number.MAX_SAFE_INTEGER), name };
      this.#plan = { ...this.#plan, listener: { ...listener, maxJson, endpoints } };
    }
    return this.#plan;
  }

  /** Returns the number of a stage node's stage, or of the first stage behind another node. */
  stageAt(node: string): number | undefined {
    return this.#plan.stages.find(({ id }) => id === node)?.ref ?? this.#entries.get(node)?.stage;
  }

  /** Returns the id of a stage's node, or of a node that gathers branches, by its number, even if a deploy removed it. */
  node(ref: number): string | undefined {
    return this.#known.get(ref)?.id ?? this.#gathers.get(ref);
  }

  /** Numbers of the stages that are on a route, and of their versions. */
  get reached(): number[] {
    const { stages, routes } = this.#plan;
    const onRoutes = new Set(routes.flatMap((route) => route.stages));
    const versions = stages.flatMap(({ ref, versions }) => (onRoutes.has(ref) && versions ? versions.list : []));
    const refs = new Map(stages.map(({ id, ref }) => [id, ref]));
    return [...new Set([...onRoutes, ...versions.flatMap(({ stage }) => refs.get(stage) ?? [])])];
  }

  /** Returns how many patient requests may be sent to a stage at a time. */
  roomAt(stage: number): number {
    const definition = this.#plan.stages.find(({ ref }) => ref === stage);
    return definition ? roomOf(definition) : Number.POSITIVE_INFINITY;
  }

  #endpoint(spec: EndpointSpec): PlannedEndpoint | null {
    const entry = this.#entries.get(spec.entry);
    if (!entry) return null;
    const { route, stage } = entry;
    const stageNames = route.stages.map((ref) => this.#known.get(ref)?.name ?? String(ref));
    return { spec, routeRef: route.ref, stageNames, room: this.roomAt(stage) };
  }

  #define(stage: PlannedStage): StageDefinition {
    // A stage that moves to another place needs new workers, too. Another password or certificate leads to the same place.
    const { url, prefix, runtime } = stage.remote ?? {};
    const text = JSON.stringify(withoutNumber(stage)) + (stage.remote ? JSON.stringify({ url, prefix, runtime }) : '');
    const revision = createHash('sha256').update(text).digest('hex').slice(0, 16);
    const ref = this.#number(`stage ${stage.id}`);
    const definition = { ...stage, ref, revision };
    this.#known.set(ref, definition);
    return definition;
  }

  #gather(id: string): number {
    const ref = this.#number(`gather ${id}`);
    this.#gathers.set(ref, id);
    return ref;
  }

  #number(key: string): number {
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#numbers.size + 1;
    this.#numbers.set(key, number);
    return number;
  }
}

/** Returns what the workers of a stage run. A stage whose range changes keeps its workers if they are all alike. */
function withoutNumber({ modelet, scaling }: PlannedStage): ModeletDefinition {
  const [first] = modelet.workers;
  const areAlike = scaling && first && modelet.workers.every((worker) => isDeepStrictEqual(worker, first));
  return areAlike ? { ...modelet, workers: [first] } : modelet;
}

/**
 * Adds to a plan the earlier routes of requests that still wait on the server, so that these requests finish on the
 * route on which they began. Drops all other earlier routes, so that they do not accumulate over deploys.
 * @param before the last plan that the engine received
 * @param waitedFor the numbers of the routes of waiting requests
 */
export function withEarlierRoutes(plan: EnginePlan, before: EnginePlan, waitedFor: ReadonlySet<number>): EnginePlan {
  const planned = new Set(plan.routes.map(({ ref }) => ref));
  const given = [...before.routes, ...(before.earlier ?? [])];
  return { ...plan, earlier: given.filter(({ ref }) => waitedFor.has(ref) && !planned.has(ref)) };
}
