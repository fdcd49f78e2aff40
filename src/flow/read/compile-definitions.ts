/**
 * Compiles flows that are only definitions, as in a file or in the editor before a deploy: expands them, compiles the
 * settings of this package's nodes, and plans their runtimes. Changes nothing.
 */
import {
  compileBatcher,
  compileBroker,
  compileCollector,
  compileJoin,
  compileRuntime,
  compileStream,
} from '../../config/compile.ts';
import { compileGate } from '../../config/compile-gate.ts';
import { compileStage, type StageConfig } from '../../config/compile-stage.ts';
import { configure } from '../../config/configure.ts';
import { type FolderSettings, modulesFolder, resolveModeletFile, userFolder } from '../../config/folders.ts';
import { compileKeys } from '../../config/http/compile-keys.ts';
import type { LookUp, Raw } from '../../config/validate.ts';
import { ModeletError } from '../../core/errors.ts';
import { usableThreads } from '../../process/container-limits.ts';
import { checkInterpreter } from '../../process/python.ts';
import type { Graph } from '../graph.ts';
import { type BrokerSecrets, type FlowPlan, planFlows } from '../plan.ts';
import { type CompiledNode, CompiledNodes } from './compiled-nodes.ts';
import { Environment } from './environment.ts';
import { expand, type FileDefinition, type FileFlows, type FileNode } from './expand.ts';
import { readGraph } from './graph-reader.ts';
import type { RunningNode } from './running-nodes.ts';

/** The settings of Node-RED that decide how nodes are compiled. */
export interface CompilerSettings extends FolderSettings {
  readonly nodeMessageBufferMaxLength?: number;
  readonly envVarExcludes?: readonly string[];
}

export interface CompiledDefinitions {
  readonly flows: FileFlows;
  readonly nodes: CompiledNodes;
  readonly graph: Graph;
  readonly plan: FlowPlan;
  /** Why variables of the flows could not be read, as it stands in the errors of the nodes that need them. */
  readonly unread: ReadonlySet<string>;
}

/** @throws Error if the flows cannot be expanded */
export function compileDefinitions(
  definitions: readonly FileDefinition[],
  settings: CompilerSettings,
): CompiledDefinitions {
  const excluded = new Set(settings.envVarExcludes ?? []);
  const variables = Object.fromEntries(Object.entries(process.env).filter(([name]) => !excluded.has(name)));
  const environment = new Environment(definitions, variables);
  const flows = expand(definitions, environment);
  const nodes = new CompiledNodes();
  for (const running of flows.running) {
    const node = compileNode(running, environment, settings);
    if (node) nodes.add(node);
  }
  const graph = readGraph(flows, nodes);
  const plan = planFlows(graph, nodes, {
    modules: modulesFolder(settings),
    user: userFolder(settings),
    secretsOf: () => secretsIn(variables),
  });
  return { flows, nodes, graph, plan, unread: environment.unread };
}

/** Only Node-RED can read the credentials of a flow file, so without it the secrets of brokers are variables. */
function secretsIn(variables: Readonly<Record<string, string | undefined>>): BrokerSecrets {
  const of = (name: string): string => variables[`MODELET_BROKER_${name}`] ?? '';
  return { username: of('USERNAME'), password: of('PASSWORD'), secret: of('SECRET'), tls: null };
}

/** Compiles the settings of a node of this package; null for a node that no endpoint needs. */
function compileNode(
  running: RunningNode<FileNode>,
  environment: Environment,
  settings: CompilerSettings,
): CompiledNode | null {
  const { node } = running;
  const of = <Config>(compile: (raw: Raw) => Config): { node: FileNode; config: Config | ModeletError } => ({
    node,
    config: attempt(node, compile),
  });
  switch (node.type) {
    case 'modelet-runtime':
      return { kind: 'runtime', ...of((raw) => compileRuntime(raw, settings.nodeMessageBufferMaxLength ?? 0)) };
    case 'modelet-stage':
      return {
        kind: 'stage',
        ...of((raw) =>
          compileStageFrom(settings, raw, (name) => environment.lookUp(running.definition, running, name)),
        ),
      };
    case 'modelet-broker':
      return { kind: 'broker', ...of(compileBroker) };
    case 'modelet-keys':
      // Credentials are not part of flows.
      return { kind: 'keys', ...of((raw) => compileKeys(raw, null)) };
    case 'modelet-batcher':
      return { kind: 'batcher', ...of(compileBatcher) };
    case 'modelet-collector':
      return { kind: 'collector', ...of(compileCollector) };
    case 'modelet-join':
      return { kind: 'join', ...of(compileJoin) };
    case 'modelet-stream':
      return { kind: 'stream', ...of(compileStream) };
    case 'modelet-gate':
      return { kind: 'gate', ...of(compileGate) };
    default:
      return null;
  }
}

/** Compiles a stage, with the files of its folders and the interpreter of its code. @throws ModeletError `config_invalid` */
export function compileStageFrom(settings: FolderSettings, raw: Raw, lookUp: LookUp): StageConfig {
  const resolve = (path: string, of?: 'model'): string => resolveModeletFile(settings, path, of);
  const config = compileStage(raw, resolve, lookUp, usableThreads);
  checkInterpreter(userFolder(settings), config);
  return config;
}

/** Returns the settings, or the error that makes the node unusable. */
function attempt<Config>(node: FileNode, compile: (raw: Raw) => Config): Config | ModeletError {
  if (node.problem !== undefined) return new ModeletError('config_invalid', node.problem);
  return configure(node.type, () => compile(node));
}
