/**
 * Decides how the queues of a runtime take what does not fit. Newest-first holds for a whole route: a stage that gets
 * items only from stages that drop their oldest drops its oldest too, or old items would pile up in its queue. Pure.
 */
import type { StageConfig } from '../config/compile-stage.ts';
import type { StageDefinition } from '../config/stage-definition.ts';
import type { Batching } from '../core/model.ts';
import { firstStages, stepsOf } from '../core/routes/route.ts';
import { type Graph, type GraphNode, isStep, nodesOf } from './graph.ts';
import type { NodeWarning } from './names.ts';
import type { CompiledRoute } from './routes.ts';
import { basesOf } from './versions.ts';
import { targetsOf } from './walk.ts';

type Queue = Pick<StageDefinition, 'capacity' | 'overflow'>;

interface StageGraph {
  readonly graph: Graph;
  /** Settings of the usable stages, by node. */
  readonly configs: ReadonlyMap<string, Pick<StageConfig, 'capacity' | 'overflow' | 'dropKey'>>;
  readonly batching: ReadonlyMap<string, Batching>;
  readonly routes: ReadonlyMap<string, CompiledRoute>;
}

export class Queues {
  readonly #drawn: StageGraph;
  readonly #bases: ReadonlyMap<string, string>;
  /** The stages before a stage that gets items from no other node. */
  readonly #before: ReadonlyMap<string, readonly string[]>;
  readonly #known: Map<string, Queue> = new Map();

  constructor(drawn: StageGraph) {
    this.#drawn = drawn;
    this.#bases = basesOf(drawn.graph);
    this.#before = stagesBefore(drawn);
  }

  /** Returns the queue of a usable stage. */
  of(id: string): Queue {
    const known = this.#known.get(id);
    if (known) return known;
    const config = this.#drawn.configs.get(id);
    const own: Queue = {
      capacity: config?.capacity ?? 0,
      overflow: config?.overflow === 'drop-oldest' ? 'drop-oldest' : 'refuse',
    };
    // Stages that pass items to each other on several routes may form a circle: there, none takes over anything.
    this.#known.set(id, own);
    const queue = config?.overflow === 'auto' ? this.#takenOver(id, own) : own;
    this.#known.set(id, queue);
    return queue;
  }

  /** Returns warnings about settings that have no effect, by node. */
  get idle(): NodeWarning[] {
    return [...this.#drawn.configs.keys()].flatMap((id) => this.#idleOf(id).map((text) => ({ id, text })));
  }

  #takenOver(id: string, own: Queue): Queue {
    const base = this.#bases.get(id);
    const before = (base === undefined ? this.#before.get(id) : [base]) ?? [];
    const queues = before.map((one) => this.of(one));
    if (queues.length === 0 || !queues.every(({ overflow }) => overflow === 'drop-oldest')) return own;
    const room = queues.reduce((sum, { capacity }) => sum + capacity, 0);
    const batch = this.#drawn.batching.get(id)?.maxBatchSize ?? 1;
    return { capacity: Math.min(own.capacity, Math.max(room, batch)), overflow: 'drop-oldest' };
  }

  #idleOf(id: string): string[] {
    const { configs, routes } = this.#drawn;
    const { overflow, dropKey } = configs.get(id) ?? { overflow: 'auto', dropKey: '' };
    const found: string[] = [];
    if (dropKey !== '' && this.of(id).overflow !== 'drop-oldest')
      found.push(`Drop key ${dropKey} has no effect: When full does not drop the oldest items`);
    if ((overflow === 'refuse' || overflow === 'wait') && this.#before.has(id))
      found.push(`When full: ${overflow} has no effect: only stages send to this one, and they wait while it is full`);
    const other = [...routes.values()].find((route) => route.dropKey !== '' && route.stages.includes(id));
    if (dropKey !== '' && found.length === 0 && other && other.dropKey !== dropKey)
      found.push(`Drop key ${dropKey} has no effect on requests that an earlier stage divides by ${other.dropKey}`);
    return found;
  }
}

/** Returns the stages before each stage, without stages at which requests enter. */
function stagesBefore(drawn: StageGraph): Map<string, readonly string[]> {
  const { routes, configs } = drawn;
  const before = new Map<string, Set<string>>();
  for (const [from, to] of [...routes.values()].flatMap(({ leg }) => stepsOf(leg))) {
    before.set(to, (before.get(to) ?? new Set()).add(from));
  }
  const entered = enteredStages(drawn, before);
  return new Map([...before].flatMap(([id, from]) => (entered.has(id) || !configs.has(id) ? [] : [[id, [...from]]])));
}

/** Returns the stages that get items from other nodes than the stages before them. */
function enteredStages({ graph, routes }: StageGraph, before: ReadonlyMap<string, ReadonlySet<string>>): Set<string> {
  const fromClients = nodesOf(graph, 'http in').flatMap(({ id }) => {
    const route = routes.get(id);
    return route ? firstStages(route.leg) : [];
  });
  // A node that gathers or chooses passes on what comes from the stages before. So does a batcher.
  const senders = [...graph.values()].filter(({ kind }) => !PASSING.has(kind));
  const fromOthers = senders.flatMap((node) => {
    const targets = node.wires.flatMap((_, output) => targetsOf(graph, node, output)).filter(isStep);
    const stages = targets.flatMap((target) => (target.kind === 'stage' ? target : targetsOf(graph, target)));
    return stages.flatMap(({ id }) => (before.get(id)?.has(node.id) ? [] : [id]));
  });
  return new Set([...fromClients, ...fromOthers]);
}

const PASSING: ReadonlySet<GraphNode['kind']> = new Set(['transparent', 'join', 'switch', 'batcher']);
