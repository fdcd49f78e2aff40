/** The flows as plain data: the nodes and wires that the compiler needs, without Node-RED. */
import type { JoinConfig } from '../config/compile.ts';
import type { StreamSpec } from '../core/endpoints.ts';
import type { Batching } from '../core/model.ts';
import type { ChoiceRule } from '../core/routes/route.ts';
import type { StageVersion } from '../core/versions.ts';

interface AnyNode {
  readonly id: string;
  /** The type as Node-RED has it, such as `http in`. */
  readonly type: string;
  /** Id of the flow that contains the node, or the subflow instance around it; '' for a node that all flows share. */
  readonly flow: string;
  /** Ids of the nodes that each output is wired to, by output. */
  readonly wires: readonly (readonly string[])[];
  /** Whether a Complete node watches this node. */
  readonly watched: boolean;
}

export interface StageNode extends AnyNode {
  readonly kind: 'stage';
  readonly runtime: string;
  readonly name: string;
  readonly input: string;
  readonly output: string;
  /** Message property that divides the queue; '' if none does. */
  readonly dropKey: string;
  /** Whether its full queue drops the oldest item. */
  readonly drops: boolean;
  /** Stages that take a share of its requests, by the ids of their running nodes. */
  readonly versions: readonly StageVersion[];
  /** Message property whose value stays on one version; '' if none does, or if the stage has no versions. */
  readonly sticky: string;
  /** Message property that is the key of a message; '' if the stage has no keys. */
  readonly keyBy: string;
  /** Another message property that the stage's code may read; null: none. */
  readonly readsAlso: string | null;
  /** `list`: each of its results is a list, whose items may pass the next stages by themselves. */
  readonly emits: 'one' | 'list';
  /** The reason why the stage's code needs whole messages, which only Node-RED has; null: it needs its input alone. */
  readonly whole: string | null;
  /** Media ranges that the stage accepts from HTTP clients. */
  readonly mediaTypes: readonly string[];
  /** Most rows of a request, of which each is an item; 0: a request is one item. */
  readonly maxRows: number;
  /** Whether requests of HTTP clients wait when its queue is full. */
  readonly patient: boolean;
  /** Whether a Catch node gets the errors that no result collector handles. */
  readonly caught: boolean;
  /** Why the node cannot be used; null if it can. */
  readonly invalid: string | null;
}

export interface BatcherNode extends AnyNode {
  readonly kind: 'batcher';
  readonly batching: Batching;
  readonly invalid: string | null;
}

export interface CollectorNode extends AnyNode {
  readonly kind: 'collector';
  readonly catches: boolean;
  readonly order: 'completion' | 'arrival';
  /** Whether the collector passes on results in parts. */
  readonly inParts: boolean;
  /** The payload of a failed request: the error's body, or the payload as it was. */
  readonly errorPayload: 'body' | 'keep';
  readonly invalid: string | null;
}

/** Gathers the branches of a message. */
export interface JoinNode extends AnyNode {
  readonly kind: 'join';
  readonly name: string;
  /** null if they are invalid. */
  readonly settings: JoinConfig | null;
  /** Whether a Catch node gets the errors that nothing else handles. */
  readonly caught: boolean;
  readonly invalid: string | null;
}

export interface SwitchNode extends AnyNode {
  readonly kind: 'switch';
  /** The place in the payload to look at. */
  readonly path: readonly string[];
  readonly rules: readonly ChoiceRule[];
  /** Why only Node-RED can follow the rules; null if the engine can. */
  readonly fault: string | null;
}

/** A dispatch gate: messages wait in it, so a chain ends before it. */
export interface GateNode extends AnyNode {
  readonly kind: 'gate';
  /** Whether the gate stores its items. Then the HTTP client gets its answer from the gate. */
  readonly durable: boolean;
}

/** A junction, a link node or the border of a subflow. Wires run through it as if it were not there. */
export interface TransparentNode extends AnyNode {
  readonly kind: 'transparent';
}

export interface LinkCallNode extends AnyNode {
  readonly kind: 'link call';
  /** Ids of the link-in nodes that the node may call. */
  readonly calls: readonly string[];
  /** Whether the message names the link-in node. */
  readonly dynamic: boolean;
}

/** A link-out node that returns messages to the link call node that they come from. */
export interface LinkReturnNode extends AnyNode {
  readonly kind: 'link return';
}

export interface HttpInNode extends AnyNode {
  readonly kind: 'http in';
  readonly method: string;
  /** URL pattern in Express syntax. */
  readonly url: string;
  /** Whether the node accepts file uploads. */
  readonly upload: boolean;
  /** Whether the node leaves bodies unparsed. */
  readonly raw: boolean;
  /** Name of the node, or '' if it has none. */
  readonly name: string;
  readonly info: string;
  /** Tab that contains the node, or the subflow instance around it. */
  readonly tab: { readonly label: string; readonly info: string };
}

export interface HttpResponseNode extends AnyNode {
  readonly kind: 'http response';
  /** null: as the message says. */
  readonly statusCode: number | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** Writes results in parts to their HTTP clients. */
export interface StreamNode extends AnyNode {
  readonly kind: 'stream';
  readonly stream: StreamSpec;
  readonly invalid: string | null;
}

/** Any other node: a chain ends before it. */
export interface OtherNode extends AnyNode {
  readonly kind: 'other';
}

export type GraphNode =
  | StageNode
  | BatcherNode
  | CollectorNode
  | JoinNode
  | SwitchNode
  | GateNode
  | TransparentNode
  | LinkCallNode
  | LinkReturnNode
  | HttpInNode
  | HttpResponseNode
  | StreamNode
  | OtherNode;

/** The nodes by id, in the order of the flows. */
export type Graph = ReadonlyMap<string, GraphNode>;

type NodeKind = GraphNode['kind'];
export type NodeOf<K extends NodeKind> = Extract<GraphNode, { readonly kind: K }>;

/** Returns the nodes of a kind, in the order of the flows. */
export function nodesOf<K extends NodeKind>(graph: Graph, kind: K): NodeOf<K>[] {
  return [...graph.values()].filter((node): node is NodeOf<K> => node.kind === kind);
}

/** Returns a stage; undefined if the node is no stage, or does not run. */
export function stageAt(graph: Graph, id: string): StageNode | undefined {
  const node = graph.get(id);
  return node?.kind === 'stage' ? node : undefined;
}

/** Whether the node may be the first of a route. */
export function isStep(node: GraphNode | undefined): node is StageNode | BatcherNode {
  return node?.kind === 'stage' || node?.kind === 'batcher';
}

export function isPipelineNode({ type }: { readonly type: string }): boolean {
  return type.startsWith('modelet-');
}
