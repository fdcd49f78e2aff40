/** Where link call nodes lead: to a link in node, and from a link out node in return mode back behind themselves. */
import type { NodeAPI } from 'node-red';

interface Definition {
  readonly id: string;
  readonly type: string;
  readonly links?: readonly string[];
  readonly linkType?: string;
  readonly mode?: string;
}

/** Calls within calls that are followed; more are a circle. */
const MOST_NESTED = 8;

export class LinkCalls {
  readonly #targets: Map<string, readonly string[]> = new Map();
  readonly #returns: Set<string> = new Set();

  constructor(RED: NodeAPI) {
    RED.nodes.eachNode((one) => {
      const { id, type, links = [], linkType, mode } = one as unknown as Definition;
      // Which one a dynamic one calls is in the message.
      if (type === 'link call' && linkType !== 'dynamic') this.#targets.set(id, links);
      if (type === 'link out' && mode === 'return') this.#returns.add(id);
    });
  }

  /** What a link call node calls; null for any other node. */
  targetsOf(id: string, calls: readonly string[]): readonly string[] | null {
    const targets = this.#targets.get(id);
    return targets && calls.length >= MOST_NESTED ? [] : (targets ?? null);
  }

  isReturn(id: string): boolean {
    return this.#returns.has(id);
  }
}
