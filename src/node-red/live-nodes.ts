/** The pipeline nodes of the running flows, by id. A deploy replaces nodes, not this table. */
import type { Node } from 'node-red';
import type { BatcherConfig, CollectorConfig, RuntimeConfig } from '../config/compile.ts';
import type { GateConfig } from '../config/compile-gate.ts';
import type { StageConfig } from '../config/compile-stage.ts';
import type { ModeletError } from '../core/errors.ts';

interface Live<Kind extends string, Config> {
  readonly kind: Kind;
  readonly node: Node;
  /** The settings, or the error if they are invalid. */
  readonly config: Config | ModeletError;
}

export type LiveRuntime = Live<'runtime', RuntimeConfig>;
export type LiveStage = Live<'stage', StageConfig>;
export type LiveBatcher = Live<'batcher', BatcherConfig>;
export type LiveCollector = Live<'collector', CollectorConfig>;
export type LiveGate = Live<'gate', GateConfig>;
export type LiveNode = LiveRuntime | LiveStage | LiveBatcher | LiveCollector | LiveGate;

export class LiveNodes {
  readonly #nodes: Map<string, LiveNode> = new Map();

  add(live: LiveNode): void {
    this.#nodes.set(live.node.id, live);
  }

  /** Removes a node, unless a new instance has already taken its id. */
  remove(node: Node): void {
    if (this.#nodes.get(node.id)?.node === node) this.#nodes.delete(node.id);
  }

  get(id: string): LiveNode | undefined {
    return this.#nodes.get(id);
  }

  of<Kind extends LiveNode['kind']>(kind: Kind): Extract<LiveNode, { kind: Kind }>[] {
    return [...this.#nodes.values()].filter((live): live is Extract<LiveNode, { kind: Kind }> => live.kind === kind);
  }

  [Symbol.iterator](): Iterator<LiveNode> {
    return this.#nodes.values();
  }
}
