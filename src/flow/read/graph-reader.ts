/** Reads the running nodes and their wires into the plain graph that the compiler expects. */
import type { BatcherConfig, StreamConfig } from '../../config/compile.ts';
import type { StageConfig } from '../../config/compile-stage.ts';
import type { StreamSpec } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import { type Batching, SINGLE_ITEMS } from '../../core/model.ts';
import type { MessageUse } from '../../core/whole-messages.ts';
import {
  type Graph,
  type GraphNode,
  type HttpInNode,
  type HttpResponseNode,
  type LinkCallNode,
  nodesOf,
  type StageNode,
} from '../graph.ts';
import { targetsOf } from '../walk.ts';
import type { CompiledNode, CompiledNodes } from './compiled-nodes.ts';
import { type Definition, type RunningNode, SUBFLOW, type WiredNode } from './running-nodes.ts';
import { readSwitch } from './switch-rules.ts';

type Common = Pick<GraphNode, 'id' | 'type' | 'flow' | 'wires' | 'watched'>;
type HttpIn = WiredNode &
  Partial<Pick<HttpInNode, 'method' | 'url' | 'upload'>> & { readonly skipBodyParsing?: boolean };
type ResponseSettings = WiredNode & { readonly statusCode?: number; readonly headers?: Record<string, string> };

export interface Flows {
  readonly definitions: readonly Definition[];
  readonly running: readonly RunningNode[];
  /** Returns a running node, also one without a definition. */
  getNode(id: string): WiredNode | null;
}

/** Returns the graph of all running nodes. @param nodes those of this package among them */
export function readGraph(flows: Flows, nodes: CompiledNodes): Graph {
  const { running } = flows;
  const graph = new Map<string, GraphNode>();
  const watched = watchedNodes(running);
  const links = new Links(running);
  const catches = new CatchNodes(flows);
  const ids = new Set(running.map(({ node }) => node.id));
  for (const one of running) {
    const { node, definition, tab, prefix } = one;
    const { id, type, wires = [] } = node;
    const common = { id, type, flow: tab?.id ?? '', wires, watched: watched.has(definition.id) };
    const entry = nodes.get(id);
    // Inside a subflow, an id stands for the node of the same instance.
    const stageId = (known: string): string => (ids.has(prefix + known) ? prefix + known : known);
    const around = { isCaught: () => catches.catch(one), stageId };
    graph.set(id, (entry && toPipelineNode(entry, common, around)) ?? toForeignNode(one, common, links));
  }
  addUndefined(flows, graph);
  openCollectors(graph);
  return graph;
}

/** Adds nodes without a definition, such as the status output of a subflow. */
function addUndefined(flows: Flows, graph: Map<string, GraphNode>): void {
  const pending = [...graph.values()].flatMap(({ wires }) => wires.flat());
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    const node = graph.has(id) ? null : flows.getNode(id);
    if (!node) continue;
    const { type, wires = [] } = node;
    graph.set(id, { kind: isTransparent(type) ? 'transparent' : 'other', id, type, flow: '', wires, watched: false });
    pending.push(...wires.flat());
  }
}

/**
 * Has the collectors directly in front of a stream response pass on parts: a stream response shows that parts are wanted. In
 * order of arrival a collector cannot.
 */
function openCollectors(graph: Map<string, GraphNode>): void {
  for (const node of nodesOf(graph, 'collector')) {
    const streams = node.order === 'completion' && targetsOf(graph, node).some(({ kind }) => kind === 'stream');
    if (streams) graph.set(node.id, { ...node, inParts: true });
  }
}

/** Returns the ids of the nodes that a Complete node watches. Inside subflows these are the ids in the template. */
function watchedNodes(running: readonly RunningNode[]): Set<string> {
  const completes = running.filter(({ definition: { type } }) => type === 'complete');
  return new Set(completes.flatMap(({ definition: { scope } }) => (Array.isArray(scope) ? scope : [])));
}

/** The facts about a stage that the other nodes of the flows tell. */
interface StageSurroundings {
  readonly isCaught: () => boolean;
  /** Returns the id of the running node that a stage means by an id. */
  readonly stageId: (id: string) => string;
}

function toPipelineNode(
  { kind, node, config }: CompiledNode,
  common: Common,
  around: StageSurroundings,
): GraphNode | null {
  const invalid = config instanceof ModeletError ? config.message : null;
  switch (kind) {
    case 'runtime':
    case 'broker':
    case 'keys':
      return null;
    case 'stage': {
      const name = node.name || node.id;
      return { kind, ...common, name, caught: around.isCaught(), invalid, ...stageSettings(config, around.stageId) };
    }
    case 'batcher': {
      return { kind, ...common, batching: config instanceof ModeletError ? SINGLE_ITEMS : batchingOf(config), invalid };
    }
    case 'gate':
      return { kind, ...common, durable: !(config instanceof ModeletError) && config.store === 'durable' };
    case 'join': {
      const settings = config instanceof ModeletError ? null : config;
      return { kind, ...common, name: node.name || node.id, settings, caught: around.isCaught(), invalid };
    }
    case 'stream':
      return { kind, ...common, stream: streamSettings(config), invalid };
    case 'collector': {
      const usable = config instanceof ModeletError ? null : config;
      const { order = 'completion', errorPayload = 'body' } = usable ?? {};
      const inParts = usable?.results === 'parts';
      return { kind, ...common, catches: usable?.catch === 'upstream', order, inParts, errorPayload, invalid };
    }
  }
}

const NO_SETTINGS = {
  ...{ runtime: '', input: '', output: '', dropKey: '', drops: false, readsAlso: null, mediaTypes: [], patient: false },
  ...{ versions: [], sticky: '', keyBy: '', whole: null, emits: 'one' as const, maxRows: 0 },
};

function stageSettings(
  config: StageConfig | ModeletError,
  stageId: StageSurroundings['stageId'],
): Pick<StageNode, keyof typeof NO_SETTINGS> {
  if (config instanceof ModeletError) return NO_SETTINGS;
  const { runtime, input, output, dropKey, keyBy, mediaTypes, maxRows, overflow, emits } = config;
  const versions = config.versions.map((version) => ({ ...version, stage: stageId(version.stage) }));
  return {
    ...{ runtime, input, output, dropKey, keyBy, readsAlso: readsAlso(config), mediaTypes },
    ...{ drops: overflow === 'drop-oldest', patient: overflow === 'wait' },
    ...{ versions, sticky: versions.length > 0 ? config.sticky : '', whole: useOf(config)?.why ?? null },
    ...{ emits, maxRows },
  };
}

function batchingOf(config: BatcherConfig): Batching {
  const { policy, maxBatchSize, targetMs, batchCost, maxBatchCost: most, costBy: by } = config;
  const maxWaitMs = policy === 'adaptive' ? targetMs : config.maxWaitMs;
  const batching = { policy, maxBatchSize, maxWaitMs };
  const padded = batchCost === 'padded';
  return padded || (batchCost === 'sum' && most > 0) ? { ...batching, costs: { by, most, padded } } : batching;
}

function streamSettings(config: StreamConfig | ModeletError): StreamSpec {
  if (config instanceof ModeletError) return { format: 'sse', event: '', heartbeatMs: 0 };
  const { format, event, heartbeatMs } = config;
  return { format, event, heartbeatMs };
}

/** Returns what the code uses of its messages besides the input; null: nothing. */
export function useOf({ source }: StageConfig): MessageUse | null {
  return source.kind === 'inline' ? (source.use ?? null) : null;
}

/** Returns the message property, other than the payload, that inline code may read, or null. */
function readsAlso({ source }: StageConfig): string | null {
  return source.kind === 'inline' ? (/\b(?:topic|_msgid)\b/.exec(source.code)?.[0] ?? null) : null;
}

/** Converts a node of another type. Running nodes' wires already lead through subflow instances and links. */
function toForeignNode({ node, definition, tab }: RunningNode, common: Common, links: Links): GraphNode {
  const { type } = common;
  if (type === 'http in') return toHttpIn(node, definition, tab, common) ?? { kind: 'other', ...common };
  if (type === 'http response') {
    const { statusCode, headers } = node as ResponseSettings;
    return { kind: type, ...common, statusCode: statusCode || null, headers: headers ?? {} } satisfies HttpResponseNode;
  }
  if (type === 'switch') return { kind: type, ...common, ...readSwitch(node, definition) };
  if (type === 'link call') return { kind: type, ...common, ...links.callsOf(definition) };
  if (type === 'link out' && definition.mode === 'return') return { kind: 'link return', ...common };
  return { kind: isTransparent(type) ? 'transparent' : 'other', ...common };
}

function toHttpIn(
  node: HttpIn,
  { name = '', info = '' }: Definition,
  tab: Definition | undefined,
  common: Common,
): HttpInNode | null {
  // Read the settings from the running node: environment variables are already substituted there.
  const { method, url, upload = false, skipBodyParsing: raw = false } = node;
  if (!method || !url) return null;
  const { label = '', info: about = '' } = tab ?? {};
  return { kind: 'http in', ...common, method, url, upload, raw, name, info, tab: { label, info: about } };
}

class Links {
  /** Ids of the running link-in nodes, by the id of their definition. */
  readonly #linkIns: Map<string, string[]> = new Map();

  constructor(running: readonly RunningNode[]) {
    for (const { node, definition } of running) {
      if (node.type !== 'link in') continue;
      this.#linkIns.set(definition.id, [...(this.#linkIns.get(definition.id) ?? []), node.id]);
    }
  }

  callsOf({ links = [], linkType }: Definition): Pick<LinkCallNode, 'calls' | 'dynamic'> {
    // The message names the target of a dynamic link call, so any link-in node may be it.
    if (linkType === 'dynamic') return { calls: [...this.#linkIns.values()].flat(), dynamic: true };
    return { calls: [links].flat().flatMap((id) => this.#linkIns.get(id) ?? []), dynamic: false };
  }
}

/** The Catch nodes, by the rules of Node-RED: scope, groups, subflows. */
class CatchNodes {
  /** The Catch nodes, by the id of the tab or subflow that contains them. */
  readonly #catches: Map<string, Definition[]> = new Map();
  /** The group around a group, by its id. */
  readonly #groups: Map<string, string | undefined> = new Map();

  constructor({ definitions, running }: Flows) {
    for (const { definition } of running) {
      const { type, z = '' } = definition;
      if (type === 'catch') this.#catches.set(z, [...(this.#catches.get(z) ?? []), definition]);
    }
    for (const { id, type, g } of definitions) if (type === 'group') this.#groups.set(id, g);
  }

  /** Whether a Catch node gets the errors of a node. Those that a subflow does not catch are its instance's errors. */
  catch({ definition, instances }: RunningNode): boolean {
    return [definition, ...instances].some((reporting) =>
      (this.#catches.get(reporting.z ?? '') ?? []).some((node) => this.#isInScope(node, reporting)),
    );
  }

  #isInScope({ scope, g }: Definition, reporting: Definition): boolean {
    if (Array.isArray(scope)) return scope.includes(reporting.id);
    if (scope !== 'group' || g === undefined) return true;
    for (let group = reporting.g; group !== undefined; group = this.#groups.get(group)) if (group === g) return true;
    return false;
  }
}

function isTransparent(type: string): boolean {
  return type === 'junction' || type === 'link in' || type === 'link out' || type.startsWith(SUBFLOW);
}
