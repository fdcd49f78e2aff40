/** Resolves link calls: a link call node leads to link in nodes, and a link out node in return mode leads back. */
import type { NodeAPI } from 'node-red';

interface Definition {
  readonly id: string;
  readonly type: string;
  readonly links?: readonly string[];
  readonly linkType?: string;
  readonly mode?: string;
}

/** Deepest nesting of link calls to follow. Deeper nesting is taken for a cycle. */
const MOST_NESTED = 8;

export class LinkCalls {
  readonly #targets: Map<string, readonly string[]> = new Map();
  readonly #returns: Set<string> = new Set();

  constructor(RED: NodeAPI) {
    RED.nodes.eachNode((one) => {
      const { id, type, links = [], linkType, mode } = one as unknown as Definition;
      // A dynamic link call takes its target from the message, so it is unknown here.
      if (type === 'link call' && linkType !== 'dynamic') this.#targets.set(id, links);
      if (type === 'link out' && mode === 'return') this.#returns.add(id);
    });
  }

  /** Returns the ids that a link call node calls, none if `calls` are nested too deep; null for any other node. */
  targetsOf(id: string, calls: readonly string[]): readonly string[] | null {
    const targets = this.#targets.get(id);
    return targets && calls.length >= MOST_NESTED ? [] : (targets ?? null);
  }

  isReturn(id: string): boolean {
    return this.#returns.has(id);
  }
}
