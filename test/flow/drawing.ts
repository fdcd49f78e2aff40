/** Flows in a few words: `drawing(stage('a', ['b']), stage('b', ['http']), other('http'))`. */
import assert from 'node:assert/strict';
import type { JoinConfig } from '../../src/config/compile.ts';
import type { Batching } from '../../src/core/model.ts';
import type { ChoiceRule, Leg } from '../../src/core/routes/route.ts';
import type {
  BatcherNode,
  CollectorNode,
  GateNode,
  Graph,
  GraphNode,
  HttpInNode,
  HttpResponseNode,
  JoinNode,
  OtherNode,
  StageNode,
  StreamNode,
  SwitchNode,
  TransparentNode,
} from '../../src/flow/graph.ts';
import { compileEndpoints, type EndpointFacts } from '../../src/flow/http/endpoints.ts';
import { planJoins } from '../../src/flow/joins.ts';
import { type CompiledGraph, type CompiledRoute, compileRoutes } from '../../src/flow/routes.ts';

export const TEN: Batching = { policy: 'oldest', maxBatchSize: 10, maxWaitMs: 5 };

/** Ids per wire of the first output; an array of arrays gives each output its own. */
type Wires = readonly string[] | readonly (readonly string[])[];

function outputs(wires: Wires): readonly (readonly string[])[] {
  return wires.every((wire) => Array.isArray(wire))
    ? (wires as readonly (readonly string[])[])
    : [wires as readonly string[]];
}

/** The properties that no test of this folder looks at. */
function common(type: string): Pick<GraphNode, 'type' | 'flow' | 'watched'> {
  return { type, flow: 'tab', watched: false };
}

export function stage(id: string, wires: Wires = [], overrides: Partial<StageNode> = {}): StageNode {
  const settings = {
    runtime: 'r1',
    input: 'payload',
    output: 'payload',
    dropKey: '',
    keyBy: '',
    drops: false,
    readsAlso: null,
    whole: null,
    emits: 'one',
    invalid: null,
  } as const;
  const noVersions = { versions: [], sticky: '' };
  const forClients = { mediaTypes: ['application/json'], maxRows: 0, patient: false, caught: false };
  const drawn = { ...common('modelet-stage'), id, name: id.toUpperCase(), wires: outputs(wires) };
  return { kind: 'stage', ...drawn, ...settings, ...noVersions, ...forClients, ...overrides };
}

export function batcher(id: string, wires: Wires, overrides: Partial<BatcherNode> = {}): BatcherNode {
  const drawn = { ...common('modelet-batcher'), id, wires: outputs(wires) };
  return { kind: 'batcher', ...drawn, batching: TEN, invalid: null, ...overrides };
}

/** A collector with both outputs: results, then errors. */
export function collector(
  id: string,
  results: readonly string[],
  errors: readonly string[],
  catches = true,
  overrides: Partial<CollectorNode> = {},
): CollectorNode {
  const drawn = { ...common('modelet-collector'), id, wires: [results, errors], catches };
  const settings = { order: 'completion', inParts: false, errorPayload: 'body', invalid: null } as const;
  return { kind: 'collector', ...drawn, ...settings, ...overrides };
}

/** A gate with both outputs: admitted, then catch. */
export function gate(id: string, admitted: readonly string[], errors: readonly string[] = []): GateNode {
  return { kind: 'gate', ...common('modelet-gate'), id, wires: [admitted, errors], durable: false };
}

/** A node that gathers branches, with both outputs: results, then errors. */
export function join(
  id: string,
  results: readonly string[],
  errors: readonly string[] = [],
  settings: Partial<JoinConfig> = {},
  overrides: Partial<JoinNode> = {},
): JoinNode {
  const counts = { quorum: 0, maxItems: 100, timeoutMs: 1000 };
  const usual = { mode: 'all', form: 'results', key: '', partial: 'error', ...counts } as const;
  const drawn = { ...common('modelet-join'), id, name: id, wires: [results, errors] };
  return {
    kind: 'join',
    ...drawn,
    settings: { name: '', ...usual, ...settings },
    caught: false,
    invalid: null,
    ...overrides,
  };
}

/** A switch node that compares `payload.kind` with the values, and sends everything else to its last output. */
export function choice(
  id: string,
  values: readonly string[],
  wires: readonly (readonly string[])[],
  overrides: Partial<SwitchNode> = {},
): SwitchNode {
  const equal = values.map((value): ChoiceRule => ({ operator: 'eq', value, limit: null }));
  const rules: ChoiceRule[] = [...equal, { operator: 'else', value: null, limit: null }];
  return { kind: 'switch', ...common('switch'), id, wires, path: ['kind'], rules, fault: null, ...overrides };
}

export function other(id: string, wires: Wires = [], type = 'function'): OtherNode {
  return { kind: 'other', ...common(type), id, wires: outputs(wires) };
}

export function junction(id: string, wires: Wires): TransparentNode {
  return { kind: 'transparent', ...common('junction'), id, wires: outputs(wires) };
}

export function httpIn(id: string, wires: Wires, overrides: Partial<HttpInNode> = {}): HttpInNode {
  const settings = { method: 'post', url: `/${id}`, upload: false, raw: false, name: '', info: '' };
  const drawn = { ...common('http in'), id, wires: outputs(wires), tab: { label: '', info: '' } };
  return { kind: 'http in', ...drawn, ...settings, ...overrides };
}

export function httpOut(id: string, overrides: Partial<HttpResponseNode> = {}): HttpResponseNode {
  const settings = { wires: [], statusCode: null, headers: {} };
  return { kind: 'http response', ...common('http response'), id, ...settings, ...overrides };
}

export function streamOut(id: string, overrides: Partial<StreamNode> = {}): StreamNode {
  const stream = { format: 'sse', event: '', heartbeatMs: 0 } as const;
  return { kind: 'stream', ...common('modelet-stream'), id, wires: [], stream, invalid: null, ...overrides };
}

export function drawing(...nodes: readonly GraphNode[]): Graph {
  return new Map(nodes.map((node) => [node.id, node]));
}

/** Compiles a drawing as a deploy does; stages bear the names of their nodes. */
export function compile(graph: Graph): CompiledGraph {
  return compileRoutes(graph, planJoins(graph, new Map()).joins);
}

/** A leg in a line: `a {b | c d} J e`; a choice as `a <b | c>`, the items of a list as `a [b] J`. */
export function written({ stages, next }: Leg<string>): string {
  if (!next) return stages.join(' ');
  const inner = (legs: readonly Leg<string>[]): string => legs.map((leg) => written(leg) || '-').join(' | ');
  if (next.kind === 'choice') return [...stages, `<${inner(next.ways)}>`].join(' ').trim();
  const branches = inner(next.branches);
  const behind = next.terms.list ? `[${branches}]` : `{${branches}}`;
  return [...stages, behind, next.gather, written(next.after)].join(' ').trim();
}

export function routeOf(entry: string, nodes: readonly GraphNode[]): CompiledRoute {
  const route = compile(drawing(...nodes)).routes.get(entry);
  assert.ok(route, `${entry} is an entry`);
  return route;
}

/** A drawing that the engine runs as one leg. */
export interface Fused {
  readonly name: string;
  readonly nodes: readonly GraphNode[];
  /** As `written` gives it. */
  readonly leg: string;
  readonly exit: string;
  readonly taps?: Readonly<Record<string, readonly string[]>>;
  readonly entry?: string;
}

/** Returns the route of a drawing, whose leg, exit and taps are as said. */
export function fusedRoute({ nodes, leg, exit, taps = {}, entry = 'a' }: Fused): CompiledRoute {
  const route = routeOf(entry, nodes);
  assert.equal(written(route.leg), leg);
  assert.equal(route.exit, exit);
  assert.deepEqual(Object.fromEntries(route.taps), taps);
  return route;
}

/** The facts of an endpoint that its flow does not have. */
export type EndpointRowFacts = Partial<Pick<EndpointFacts, 'root' | 'barred' | 'taken' | 'v2Paths' | 'flawOf'>>;

/** Compiles the endpoints of a drawing. */
export function endpointsOf(
  nodes: readonly GraphNode[],
  facts: EndpointRowFacts = {},
): ReturnType<typeof compileEndpoints> {
  const graph = drawing(...nodes);
  const { routes, apart, invalid } = compile(graph);
  return compileEndpoints(graph, {
    root: '/',
    barred: null,
    taken: new Map(),
    v2Paths: new Map(),
    flawOf: () => null,
    routes,
    apart,
    invalid,
    ...facts,
  });
}
