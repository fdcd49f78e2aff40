/** Which HTTP-in nodes lead to a pipeline, and which routes lead straight to an HTTP response. */
import type { Node, NodeAPI } from 'node-red';
import type { Endpoint } from './http-hold.ts';

type WiredNode = Node & { readonly wires?: readonly (readonly string[])[] };

/** The HTTP-in nodes from which a message can reach one of `entries`. */
export function endpointsTo(RED: NodeAPI, entries: ReadonlySet<string>): Endpoint[] {
  const endpoints: Endpoint[] = [];
  RED.nodes.eachNode((definition) => {
    const { id, type, method, url } = definition as { id: string; type: string; method?: string; url?: string };
    if (type === 'http in' && method && url && leadsTo(RED, id, entries)) endpoints.push({ id, method, url });
  });
  return endpoints;
}

function leadsTo(RED: NodeAPI, from: string, entries: ReadonlySet<string>): boolean {
  const seen = new Set<string>();
  const pending = [from];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (entries.has(id)) return true;
    if (seen.has(id)) continue;
    seen.add(id);
    pending.push(...((RED.nodes.getNode(id) as WiredNode | null)?.wires?.flat() ?? []));
  }
  return false;
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
