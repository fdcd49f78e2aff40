/** Finds the HTTP-in nodes that lead to a pipeline, and the stages that lead straight to an HTTP response. */
import type { Node, NodeAPI } from 'node-red';
import type { ModeletError } from '../../core/errors.ts';
import { httpIns } from './http-ins.ts';
import { LinkCalls } from './link-calls.ts';

type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

/** Terms that a pipeline node sets for the requests that reach it. */
export interface EntryTerms {
  /** Whether requests wait during a deploy. */
  readonly held: boolean;
  /** Largest payload, in bytes. */
  readonly maxBytes: number;
  /** Counts a request that was refused before it reached a node. */
  readonly countRefused: (error: ModeletError) => void;
}

export interface Endpoint extends EntryTerms {
  /** Id of the HTTP-in node. */
  readonly id: string;
  readonly method: string;
  /** URL as set in the HTTP-in node; may contain `:name` and `*`. */
  readonly url: string;
}

/** Returns the HTTP-in nodes that lead to one of `entries`, with the terms of the entries that messages reach first. */
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

/** Status and headers that an HTTP response node would send. */
export interface DirectAnswer {
  readonly statusCode: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns the HTTP response behind a stage if only junctions, links and collectors lie between; null otherwise. */
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
