/** Which HTTP-in nodes lead to a pipeline, and which routes lead straight to an HTTP response. */
import type { Node, NodeAPI } from 'node-red';
import type { ModeletError } from '../../core/errors.ts';
import { httpIns } from './http-ins.ts';
import { LinkCalls } from './link-calls.ts';

type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

/** What a pipeline node says of the requests that come to it. */
export interface EntryTerms {
  /** They wait while a deploy is under way. */
  readonly held: boolean;
  /** Largest payload. */
  readonly maxBytes: number;
  /** Counts one that was refused before it came to a node. */
  readonly countRefused: (error: ModeletError) => void;
}

export interface Endpoint extends EntryTerms {
  /** Id of the HTTP-in node. */
  readonly id: string;
  readonly method: string;
  /** As the HTTP-in node has it; may have `:name` and `*`. */
  readonly url: string;
}

/** The HTTP-in nodes from which a message can reach one of `entries`, with the terms of those that it can reach first. */
export function endpointsTo(RED: NodeAPI, entries: ReadonlyMap<string, EntryTerms>): Endpoint[] {
  const calls = new LinkCalls(RED);
  return httpIns(RED).flatMap(({ id, method, url }): Endpoint[] => {
    const terms = termsFrom(RED, id, entries, calls);
    return terms ? [{ id, method, url, ...terms }] : [];
  });
}

function termsFrom(
  RED: NodeAPI,
  from: string,
  entries: ReadonlyMap<string, EntryTerms>,
  calls: LinkCalls,
): EntryTerms | null {
  const seen = new Set<string>();
  const pending = [from];
  const found: EntryTerms[] = [];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (seen.has(id)) continue;
    seen.add(id);
    const terms = entries.get(id);
    if (terms) found.push(terms);
    else
      pending.push(
        ...((RED.nodes.getNode(id) as WiredNode | null)?.wires?.flat() ?? []),
        ...(calls.targetsOf(id, []) ?? []),
      );
  }
  const [first] = found;
  if (!first) return null;
  const maxBytes = Math.max(...found.map((terms) => terms.maxBytes));
  return { held: found.some(({ held }) => held), maxBytes, countRefused: first.countRefused };
}

/** What an HTTP response node would do with a message. */
export interface DirectAnswer {
  readonly statusCode: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

/** The HTTP response behind a stage's node, if nothing but junctions, links and collectors lies between. */
export function directAnswer(RED: NodeAPI, stage: string): DirectAnswer | null {
  const seen = new Set<string>();
  const pending = [...((RED.nodes.getNode(stage) as WiredNode | null)?.wires?.[0] ?? [])];
  for (let id = pending.shift(); id !== undefined; id = pending.shift()) {
    const node = seen.has(id) ? null : (RED.nodes.getNode(id) as WiredNode | null);
    seen.add(id);
    if (!node) continue;
    if (node.type === 'http response') {
      const { statusCode, headers } = node as unknown as { statusCode?: number; headers?: Record<string, string> };
      return { statusCode: statusCode || undefined, headers: headers ?? {} };
    }
    if (['junction', 'link in', 'link out', 'modelet-collector'].includes(node.type))
      pending.push(...(node.wires?.[0] ?? []));
  }
  return null;
}
