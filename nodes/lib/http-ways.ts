/** Where HTTP requests go in the running flows: from an HTTP-in node to stages, and from a stage to what answers. */
import type { Node, NodeAPI } from 'node-red';
import { ModeletError } from '../../src/index.ts';
import type { LiveNode, LiveNodes } from './live-nodes.ts';

type RunningNode = Node & { readonly wires?: readonly (readonly string[])[] };

export interface Reached {
  readonly id: string;
  /** Nothing lies between that may change the message. */
  readonly direct: boolean;
  /** It comes out of a durable gate, without its HTTP client. */
  readonly stored: boolean;
}

/** What a message meets first, on each of its ways. */
export interface Ways {
  readonly stages: readonly Reached[];
  readonly gates: readonly Reached[];
  /** HTTP response nodes. */
  readonly responses: readonly Reached[];
  /** A collector passes results on in parts. */
  readonly inParts: boolean;
}

interface Flows {
  readonly RED: NodeAPI;
  readonly live: LiveNodes;
}

/** The ways from the first output of a node to the next stages and HTTP responses. */
export function waysFrom({ RED, live }: Flows, from: string): Ways {
  const found = { stages: [] as Reached[], gates: [] as Reached[], responses: [] as Reached[], inParts: false };
  const seen = new Set<string>();
  const pending: Reached[] = wiresOf(RED, from, 0).map((id) => ({ id, direct: true, stored: false }));
  for (let at = pending.shift(); at; at = pending.shift()) {
    const key = JSON.stringify(at);
    const node = seen.has(key) ? null : RED.nodes.getNode(at.id);
    seen.add(key);
    if (!node) continue;
    const passed = live.get(at.id);
    if (passed?.kind === 'stage') found.stages.push(at);
    else if (node.type === 'http response') found.responses.push(at);
    else pending.push(...goOn(RED, at, passed, node.type));
    if (passed?.kind === 'gate') found.gates.push(at);
    if (passesParts(passed)) found.inParts = true;
  }
  return found;
}

/** Where a message goes from a node that is neither a stage nor an HTTP response. */
function goOn(RED: NodeAPI, { id, direct, stored }: Reached, passed: LiveNode | undefined, type: string): Reached[] {
  const next = passed
    ? { direct, stored: stored || isDurable(passed) }
    : { direct: direct && isTransparent(type), stored };
  // The second output of a pipeline node is for errors.
  return wiresOf(RED, id, passed ? 0 : undefined).map((target) => ({ id: target, ...next }));
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
