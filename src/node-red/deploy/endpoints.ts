/** Finds the HTTP-in nodes that lead to a pipeline, and the terms for their requests. */
import { DEFAULT_LIMITS } from '../../config/compile.ts';
import type { ModeletError } from '../../core/errors.ts';
import { type Graph, nodesOf, stageAt } from '../../flow/graph.ts';
import { entriesFrom } from '../../flow/http/http-ways.ts';
import { walk } from '../../flow/walk.ts';
import type { AccessTable, Clients, Origins } from '../../http/access.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { GateTerms } from '../gate-port.ts';
import type { LiveNodes } from '../live-nodes.ts';

/** Terms that a pipeline node sets for the requests that reach it. */
export interface EntryTerms {
  /** Whether requests wait during a deploy. */
  readonly held: boolean;
  /** Largest payload, in bytes. */
  readonly maxBytes: number;
  /** Counts a request that was refused before it reached a node. */
  readonly countRefused: (error: ModeletError) => void;
  /** Counts a result that no answer can hold. */
  readonly countUnwritten: (error: ModeletError) => void;
  /** Undefined: pages of other origins may not call. */
  readonly origins: Origins | undefined;
}

export interface Endpoint extends EntryTerms {
  /** Id of the HTTP-in node. */
  readonly id: string;
  readonly method: string;
  /** URL as set in the HTTP-in node; may contain `:name` and `*`. */
  readonly url: string;
  /** The clients of each runtime with keys that its messages can reach. A request must be admitted by all. */
  readonly clients: readonly Clients[];
}

/** The services by runtime, and who may use each. */
export interface ServedRuntimes {
  readonly services: ReadonlyMap<string, Service>;
  readonly access: AccessTable;
}

/** Returns the HTTP-in nodes that lead to one of `entries`, with the terms of the entries that messages reach first. */
export function endpointsTo(
  graph: Graph,
  entries: ReadonlyMap<string, EntryTerms>,
  served: ServedRuntimes,
): Endpoint[] {
  return nodesOf(graph, 'http in').flatMap(({ id, method, url }): Endpoint[] => {
    const found = entriesFrom(graph, id, (entry) => entries.has(entry)).flatMap((entry) => entries.get(entry) ?? []);
    const [first] = found;
    return first ? [{ id, method, url, ...first, ...widest(found), clients: clientsBehind(graph, id, served) }] : [];
  });
}

/** Returns the clients of all runtimes with keys behind an HTTP-in node, also those behind other stages. */
function clientsBehind(graph: Graph, id: string, { services, access }: ServedRuntimes): Clients[] {
  const next = (at: string): readonly string[] => {
    const node = graph.get(at);
    return [...(node?.wires.flat() ?? []), ...(node?.kind === 'link call' ? node.calls : [])];
  };
  const runtimes = [...walk([id], next)].flatMap((at) => stageAt(graph, at)?.runtime ?? []);
  return [...new Set(runtimes)].flatMap((runtime) => {
    const service = services.get(runtime);
    const clients = service && access.of(service).clients;
    return clients?.areNeeded ? clients : [];
  });
}

function widest(found: readonly EntryTerms[]): Pick<EntryTerms, 'held' | 'maxBytes'> {
  return { held: found.some(({ held }) => held), maxBytes: Math.max(...found.map(({ maxBytes }) => maxBytes)) };
}

/** Returns terms for every node that can receive a message, unusable nodes included: they answer with an error. */
export function entryTerms(
  live: LiveNodes,
  { services, access }: ServedRuntimes,
  routes: ReadonlyMap<string, { readonly service: Service }>,
  gates: ReadonlyMap<string, GateTerms>,
): Map<string, EntryTerms> {
  const entries = [...live].filter(({ kind }) => ['stage', 'batcher', 'gate'].includes(kind));
  return new Map(
    entries.map(({ node: { id } }) => {
      const gate = gates.get(id);
      const service = routes.get(id)?.service ?? services.get(gate?.runtime ?? '');
      const maxBytes =
        gate?.limits.maxPayloadBytes ?? service?.config.maxPayloadBytes ?? DEFAULT_LIMITS.maxPayloadBytes;
      const held = service?.config.holdOnDeploy ?? gate !== undefined;
      const own = service && access.of(service).origins;
      const origins = own?.areSet ? own : undefined;
      const countRefused = (error: ModeletError): void => service?.desk.countRefused(error);
      const countUnwritten = (error: ModeletError): void => service?.desk.countUnwritten(error, id);
      return [id, { held, maxBytes, countRefused, countUnwritten, origins }];
    }),
  );
}
