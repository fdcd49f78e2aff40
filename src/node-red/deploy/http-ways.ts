/** Traces HTTP requests through the running flows: from an HTTP-in node to stages, and from a stage to responses. */
import type { Node, NodeAPI } from 'node-red';
import { ModeletError } from '../../core/errors.ts';
import type { LiveNode, LiveNodes } from '../live-nodes.ts';
import type { LinkCalls } from './link-calls.ts';

type RunningNode = Node & { readonly wires?: readonly (readonly string[])[] };

export interface Reached {
  readonly id: string;
  /** Whether no node in between can change the message. */
  readonly direct: boolean;
  /** Whether the message has passed a durable gate, and so has lost its HTTP client. */
  readonly stored: boolean;
  /** Link call nodes that the message must return to, innermost last. */
  readonly calls: readonly string[];
}

/** Nodes that a message can reach before it passes another stage. */
export interface Ways {
  readonly stages: readonly Reached[];
  readonly gates: readonly Reached[];
  /** HTTP response nodes. */
  readonly responses: readonly Reached[];
  /** Whether a collector on the way passes on results in parts. */
  readonly inParts: boolean;
}

/** The running flows. */
export interface Flows {
  readonly RED: NodeAPI;
  readonly live: LiveNodes;
  readonly linkCalls: LinkCalls;
}

/** Returns the ways from the first output of a node to the next stages and HTTP responses. */
export function waysFrom(flows: Flows, { id: from, calls }: Pick<Reached, 'id' | 'calls'>): Ways {
  const { RED, live } = flows;
  const found = { stages: [] as Reached[], gates: [] as Reached[], responses: [] as Reached[], inParts: false };
  const seen = new Set<string>();
  const pending: Reached[] = wiresOf(RED, from, 0).map((id) => ({ id, direct: true, stored: false, calls }));
  for (let at = pending.shift(); at; at = pending.shift()) {
    const key = JSON.stringify(at);
    const node = seen.has(key) ? null : RED.nodes.getNode(at.id);
    seen.add(key);
    if (!node) continue;
    const passed = live.get(at.id);
    if (passed?.kind === 'stage') found.stages.push(at);
    else if (node.type === 'http response') found.responses.push(at);
    else pending.push(...(passed ? passPipelineNode(RED, at, passed) : passOther(flows, at, node.type)));
    if (passed?.kind === 'gate') found.gates.push(at);
    if (passesParts(passed)) found.inParts = true;
  }
  return found;
}

/** Follows only the first output: the second output of a pipeline node is for errors. */
function passPipelineNode(RED: NodeAPI, at: Reached, passed: LiveNode): Reached[] {
  return wiresOf(RED, at.id, 0).map((id) => ({ ...at, id, stored: at.stored || isDurable(passed) }));
}

function passOther({ RED, linkCalls }: Flows, at: Reached, type: string): Reached[] {
  const { calls } = at;
  const called = linkCalls.targetsOf(at.id, calls);
  if (called) return called.map((id) => ({ ...at, id, calls: [...calls, at.id] }));
  const caller = linkCalls.isReturn(at.id) ? calls.at(-1) : undefined;
  if (caller !== undefined) return wiresOf(RED, caller, 0).map((id) => ({ ...at, id, calls: calls.slice(0, -1) }));
  const direct = at.direct && isTransparent(type);
  return wiresOf(RED, at.id).map((id) => ({ ...at, id, direct }));
}

function wiresOf(RED: NodeAPI, id: string, output?: number): readonly string[] {
  const wires = (RED.nodes.getNode(id) as RunningNode | null)?.wires ?? [];
  return output === undefined ? wires.flat() : (wires[output] ?? []);
}

export function isDurable(node: LiveNode | undefined): boolean {
  return node?.kind === 'gate' && !(node.config instanceof ModeletError) && node.config.store === 'durable';
}

function passesParts(node: LiveNode | undefined): boolean {
  return node?.kind === 'collector' && !(node.config instanceof ModeletError) && node.config.results === 'parts';
}

function isTransparent(type: string): boolean {
  return type === 'junction' || type === 'link in' || type === 'link out' || type.startsWith('subflow:');
}
