/**
 * Keeps the timers of function nodes alive when a deploy closes the nodes. A closing function node clears its timers:
 * an async function that waits for a timer would never resume, and Node-RED does not report its message. Nodes on
 * the way to a pipeline or an HTTP response keep their timers while a client, a paced split or a gate waits.
 */
import type { Node, NodeAPI } from 'node-red';

type FunctionNode = Node & { readonly outstandingTimers?: NodeJS.Timeout[] };

interface Kept {
  readonly node: FunctionNode;
  readonly timers: readonly NodeJS.Timeout[];
}

export class FunctionTimers {
  readonly #RED: NodeAPI;
  /** Timers of nodes that may be about to close. */
  #taken: Kept[] = [];
  /** Timers of closed nodes. */
  readonly #kept: Kept[] = [];

  constructor(RED: NodeAPI) {
    this.#RED = RED;
  }

  /** Takes the timers of function nodes. Call before nodes close. */
  take(nodes: readonly FunctionNode[]): void {
    for (const node of nodes) {
      const isWaiting = node.type === 'function' && Array.isArray(node.outstandingTimers);
      if (isWaiting) this.#taken.push({ node, timers: node.outstandingTimers.splice(0) });
    }
  }

  /** Returns the timers of nodes that are still running. Call after nodes have closed. */
  giveBack(): void {
    for (const { node, timers } of this.#taken.splice(0)) {
      if (this.#RED.nodes.getNode(node.id) === node) node.outstandingTimers?.push(...timers);
      else this.#kept.push({ node, timers });
    }
  }

  /** Clears all timers of closed nodes. */
  end(): void {
    for (const { node, timers } of this.#kept.splice(0)) {
      for (const timer of [...timers, ...(node.outstandingTimers?.splice(0) ?? [])]) clearTimeout(timer);
    }
  }
}
