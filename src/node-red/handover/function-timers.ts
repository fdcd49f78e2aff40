/**
 * A function node clears its timers as it closes: an async function that waits in one would never go on, and Node-RED
 * does not tell which message it had. Those on the way to a pipeline or an HTTP response keep their timers as long as
 * somebody waits.
 */
import type { Node, NodeAPI } from 'node-red';

type FunctionNode = Node & { readonly outstandingTimers?: NodeJS.Timeout[] };

interface Kept {
  readonly node: FunctionNode;
  readonly timers: readonly NodeJS.Timeout[];
}

export class FunctionTimers {
  readonly #RED: NodeAPI;
  /** Of nodes that may be about to close. */
  #taken: Kept[] = [];
  /** Of nodes that were closed. */
  readonly #kept: Kept[] = [];

  constructor(RED: NodeAPI) {
    this.#RED = RED;
  }

  /** Before nodes close. */
  take(nodes: readonly FunctionNode[]): void {
    for (const node of nodes) {
      const isWaiting = node.type === 'function' && Array.isArray(node.outstandingTimers);
      if (isWaiting) this.#taken.push({ node, timers: node.outstandingTimers.splice(0) });
    }
  }

  /** After nodes were closed: the others have theirs back. */
  giveBack(): void {
    for (const { node, timers } of this.#taken.splice(0)) {
      if (this.#RED.nodes.getNode(node.id) === node) node.outstandingTimers?.push(...timers);
      else this.#kept.push({ node, timers });
    }
  }

  /** Ends what closed nodes have still to do. */
  end(): void {
    for (const { node, timers } of this.#kept.splice(0)) {
      for (const timer of [...timers, ...(node.outstandingTimers?.splice(0) ?? [])]) clearTimeout(timer);
    }
  }
}
