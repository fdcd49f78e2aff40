/** The HTTP-in nodes that run, those of subflows' instances too. */
import type { Node, NodeAPI } from 'node-red';
import { type RunningNode, runningNodes } from '../handover/running-nodes.ts';

type RunningHttpIn = Node & { readonly method?: string; readonly url?: string; readonly upload?: boolean };

export interface HttpIn {
  readonly id: string;
  readonly method: string;
  /** As Express takes it. */
  readonly url: string;
  /** Files may be sent to it. */
  readonly upload: boolean;
  /** '' where it has none. */
  readonly name: string;
  readonly info: string;
  /** The flow that it is in, or that its subflow's instance is in. */
  readonly tab: { readonly label: string; readonly info: string };
}

export function httpIns(RED: NodeAPI): HttpIn[] {
  return httpInsAmong(runningNodes(RED, ({ type }) => type === 'http in'));
}

export function httpInsAmong(running: readonly RunningNode[]): HttpIn[] {
  return running.flatMap((one) => (one.node.type === 'http in' ? toHttpIn(one) : []));
}

function toHttpIn({ node, definition: { name = '', info = '' }, tab }: RunningNode): HttpIn[] {
  // Its settings are those of the node that runs: variables of the environment have been put in.
  const { id, method, url, upload = false } = node as RunningHttpIn;
  if (!method || !url) return [];
  return [{ id, method, url, upload, name, info, tab: { label: tab?.label ?? '', info: tab?.info ?? '' } }];
}
