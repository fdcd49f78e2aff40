/** Lists the running HTTP-in nodes, including those in subflow instances. */
import type { Node, NodeAPI } from 'node-red';
import { type RunningNode, runningNodes } from '../handover/running-nodes.ts';

type RunningHttpIn = Node & { readonly method?: string; readonly url?: string; readonly upload?: boolean };

export interface HttpIn {
  readonly id: string;
  readonly method: string;
  /** URL pattern in Express syntax. */
  readonly url: string;
  /** Whether the node accepts file uploads. */
  readonly upload: boolean;
  /** Name of the node, or '' if it has none. */
  readonly name: string;
  readonly info: string;
  /** Tab that contains the node, or the subflow instance around it. */
  readonly tab: { readonly label: string; readonly info: string };
}

export function httpIns(RED: NodeAPI): HttpIn[] {
  return httpInsAmong(runningNodes(RED, ({ type }) => type === 'http in'));
}

export function httpInsAmong(running: readonly RunningNode[]): HttpIn[] {
  return running.flatMap((one) => (one.node.type === 'http in' ? toHttpIn(one) : []));
}

function toHttpIn({ node, definition: { name = '', info = '' }, tab }: RunningNode): HttpIn[] {
  // Read the settings from the running node: environment variables are already substituted there.
  const { id, method, url, upload = false } = node as RunningHttpIn;
  if (!method || !url) return [];
  return [{ id, method, url, upload, name, info, tab: { label: tab?.label ?? '', info: tab?.info ?? '' } }];
}
