/** The pipeline nodes of the flows with their settings compiled: plain data, from which plans are made. */
import type {
  BatcherConfig,
  BrokerConfig,
  CollectorConfig,
  JoinConfig,
  RuntimeConfig,
  StreamConfig,
} from '../../config/compile.ts';
import type { GateConfig } from '../../config/compile-gate.ts';
import type { StageConfig } from '../../config/compile-stage.ts';
import type { KeysConfig } from '../../config/http/compile-keys.ts';
import type { ClientKey } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';

interface Compiled<Kind extends string, Config> {
  readonly kind: Kind;
  readonly node: { readonly id: string; readonly name?: string | undefined };
  /** The settings, or the error if they are invalid. */
  readonly config: Config | ModeletError;
}

export type CompiledNode =
  | Compiled<'runtime', RuntimeConfig>
  | Compiled<'stage', StageConfig>
  | Compiled<'batcher', BatcherConfig>
  | Compiled<'collector', CollectorConfig>
  | Compiled<'join', JoinConfig>
  | Compiled<'stream', StreamConfig>
  | Compiled<'gate', GateConfig>
  | Compiled<'broker', BrokerConfig>
  | Compiled<'keys', KeysConfig>;

/** The settings of a node of a kind, if they can be used. */
export type KindSettings<Kind extends CompiledNode['kind']> = Exclude<
  Extract<CompiledNode, { kind: Kind }>['config'],
  ModeletError
>;

/** Compiled nodes by id. @typeParam Node what is known of each node; in Node-RED also the running node itself */
export class CompiledNodes<Node extends CompiledNode = CompiledNode> {
  protected readonly nodes: Map<string, Node> = new Map();

  add(node: Node): void {
    this.nodes.set(node.node.id, node);
  }

  get(id: string): Node | undefined {
    return this.nodes.get(id);
  }

  of<Kind extends Node['kind']>(kind: Kind): Extract<Node, { kind: Kind }>[] {
    return [...this.nodes.values()].filter((node): node is Extract<Node, { kind: Kind }> => node.kind === kind);
  }

  /** Returns the settings of a node; undefined if there is no such node of this kind, or it is invalid. */
  settings<Kind extends CompiledNode['kind']>(kind: Kind, id: string): KindSettings<Kind> | undefined {
    const node: CompiledNode | undefined = this.nodes.get(id);
    return node?.kind === kind && !(node.config instanceof ModeletError)
      ? (node.config as KindSettings<Kind>)
      : undefined;
  }

  /** Returns the settings of all valid nodes of a kind, each with the id of its node. */
  allSettings<Kind extends CompiledNode['kind']>(kind: Kind): (readonly [id: string, KindSettings<Kind>])[] {
    return [...this.nodes.keys()].flatMap((id) => {
      const settings = this.settings(kind, id);
      return settings ? [[id, settings] as const] : [];
    });
  }

  [Symbol.iterator](): Iterator<Node> {
    return this.nodes.values();
  }
}

/** Returns why the keys of a runtime cannot be used; null if they can, or if it has none. */
export function faultOfKeys(nodes: CompiledNodes, { keys }: RuntimeConfig): string | null {
  if (keys === '') return null;
  const found = nodes.get(keys);
  if (found?.kind !== 'keys') return 'the keys of its runtime do not exist or are disabled';
  return found.config instanceof ModeletError ? `the keys of its runtime: ${found.config.message}` : null;
}

/** Returns the clients that may use a runtime's endpoints: null for all clients; an empty table, which admits no client, if the keys cannot be used. */
export function clientsOf(nodes: CompiledNodes, runtime: string): readonly ClientKey[] | null {
  const { keys = '' } = nodes.settings('runtime', runtime) ?? {};
  if (keys === '') return null;
  return nodes.settings('keys', keys)?.clients ?? [];
}

/** Returns the settings of the runtimes that must run: those with stages. */
export function usedRuntimes(nodes: CompiledNodes): Map<string, RuntimeConfig> {
  const used = new Set(nodes.allSettings('stage').map(([, { runtime }]) => runtime));
  return new Map(nodes.allSettings('runtime').filter(([id]) => used.has(id)));
}

/**
 * Returns the paths below which runtimes serve the KServe v2 protocol, or publish metrics, health and OpenAPI. Runtimes that
 * do not are absent.
 */
export function pathsOf(nodes: CompiledNodes, which: 'v2Path' | 'publicPath'): Map<string, string> {
  const all = nodes.allSettings('runtime').map(([id, config]) => [id, config[which]] as const);
  return new Map(all.filter(([, path]) => path !== ''));
}
