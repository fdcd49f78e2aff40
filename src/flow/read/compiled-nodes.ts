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

  [Symbol.iterator](): Iterator<Node> {
    return this.nodes.values();
  }
}

/** Returns the settings of a stage; undefined if there is no such stage, or it is invalid. */
export function stageConfig(nodes: CompiledNodes, id: string): StageConfig | undefined {
  const stage = nodes.get(id);
  return stage?.kind === 'stage' && !(stage.config instanceof ModeletError) ? stage.config : undefined;
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
  const found = nodes.get(runtime);
  if (found?.kind !== 'runtime' || found.config instanceof ModeletError || found.config.keys === '') return null;
  const keys = nodes.get(found.config.keys);
  return keys?.kind === 'keys' && !(keys.config instanceof ModeletError) ? keys.config.clients : [];
}

/** Returns the settings of the runtimes that must run: those with stages. */
export function usedRuntimes(nodes: CompiledNodes): Map<string, RuntimeConfig> {
  const used = new Set(nodes.of('stage').map(({ config }) => (config instanceof ModeletError ? '' : config.runtime)));
  const runtimes = new Map<string, RuntimeConfig>();
  for (const { node, config } of nodes.of('runtime')) {
    // These are excluded: changing them must not restart the engine.
    const others = { publicPath: '', v2Path: '', baseUrl: '', listen: null, tls: '', broker: '', keys: '', cors: [] };
    if (used.has(node.id) && !(config instanceof ModeletError)) runtimes.set(node.id, { ...config, ...others });
  }
  return runtimes;
}

/** Returns the URL at which the clients of a runtime find its endpoints; '' if it names none. */
export function baseUrlOf(nodes: CompiledNodes, runtime: string): string {
  const found = nodes.get(runtime);
  return found?.kind === 'runtime' && !(found.config instanceof ModeletError) ? found.config.baseUrl : '';
}

/** Returns the origins of web pages that may call the endpoints of a runtime. */
export function originsOf(nodes: CompiledNodes, runtime: string): readonly string[] {
  const found = nodes.get(runtime);
  return found?.kind === 'runtime' && !(found.config instanceof ModeletError) ? found.config.cors : [];
}

/** Returns the paths below which runtimes serve the KServe v2 protocol. Runtimes that do not are absent. */
export function v2Paths(nodes: CompiledNodes): Map<string, string> {
  return new Map(
    nodes.of('runtime').flatMap(({ node, config }) => {
      const isSet = !(config instanceof ModeletError) && config.v2Path !== '';
      return isSet ? [[node.id, config.v2Path] as const] : [];
    }),
  );
}
