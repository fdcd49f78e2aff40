/** Finds the HTTP-in nodes that lead to a pipeline, and the terms for their requests. */
import type { ModeletError } from '../../core/errors.ts';
import { type Graph, nodesOf } from '../../flow/graph.ts';
import { entriesFrom } from '../../flow/http-ways.ts';

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
export function endpointsTo(graph: Graph, entries: ReadonlyMap<string, EntryTerms>): Endpoint[] {
  return nodesOf(graph, 'http in').flatMap(({ id, method, url }): Endpoint[] => {
    const found = entriesFrom(graph, id, (entry) => entries.has(entry)).flatMap((entry) => entries.get(entry) ?? []);
    const [first] = found;
    return first ? [{ id, method, url, ...first, ...widest(found) }] : [];
  });
}

function widest(found: readonly EntryTerms[]): Pick<EntryTerms, 'held' | 'maxBytes'> {
  return { held: found.some(({ held }) => held), maxBytes: Math.max(...found.map(({ maxBytes }) => maxBytes)) };
}
