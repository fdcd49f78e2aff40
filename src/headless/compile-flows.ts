/** Compiles the flows of a file for a process without Node-RED: its endpoints, and what their runtimes need. */

import { compileBatcher, compileCollector, compileRuntime } from '../config/compile.ts';
import { compileGate } from '../config/compile-gate.ts';
import { compileStage, type StageConfig } from '../config/compile-stage.ts';
import { modulesFolder, resolveModeletFile, userFolder } from '../config/folders.ts';
import { barredBySettings, httpRoot } from '../config/http-settings.ts';
import type { Raw } from '../config/validate.ts';
import { asError, ModeletError } from '../core/errors.ts';
import { flawOf } from '../endpoint/served-endpoint.ts';
import { type CompiledEndpoints, compileEndpoints } from '../flow/endpoints.ts';
import type { Graph } from '../flow/graph.ts';
import { type FlowPlan, planFlows } from '../flow/plan.ts';
import { type CompiledNode, CompiledNodes } from '../flow/read/compiled-nodes.ts';
import { readGraph } from '../flow/read/graph-reader.ts';
import type { RunningNode } from '../flow/read/running-nodes.ts';
import { checkInterpreter } from '../process/python.ts';
import { Environment } from './environment.ts';
import { expand, type FileFlows, type FileNode } from './expand.ts';
import type { FlowSource, Settings } from './flow-file.ts';

export interface HeadlessFlows {
  readonly source: FlowSource;
  readonly flows: FileFlows;
  readonly nodes: CompiledNodes;
  readonly graph: Graph;
  readonly plan: FlowPlan;
  readonly compiled: CompiledEndpoints;
}

/** @throws Error if the flows cannot be expanded */
export function compileFlows(source: FlowSource): HeadlessFlows {
  const { definitions, settings } = source;
  const excluded = new Set(settings.envVarExcludes ?? []);
  const variables = Object.fromEntries(Object.entries(process.env).filter(([name]) => !excluded.has(name)));
  const flows = expand(definitions, new Environment(definitions, variables));
  const nodes = new CompiledNodes();
  for (const running of flows.running) {
    const node = compileNode(running, flows, settings);
    if (node) nodes.add(node);
  }
  const graph = readGraph(flows, flows.running, nodes);
  const plan = planFlows(graph, nodes, { modules: modulesFolder(settings), user: userFolder(settings) });
  const compiled = compileEndpoints(graph, {
    routes: plan.routes,
    invalid: plan.invalid,
    flawOf,
    root: httpRoot(settings),
    barred:
      settings.httpNodeRoot === false ? 'Node-RED has no HTTP-in nodes (httpNodeRoot)' : barredBySettings(settings),
    taken: new Map(),
  });
  return { source, flows, nodes, graph, plan, compiled };
}

/** Compiles the settings of a node of this package; null for a node that no endpoint needs. */
function compileNode(running: RunningNode<FileNode>, flows: FileFlows, settings: Settings): CompiledNode | null {
  const { node } = running;
  const of = <Config>(compile: (raw: Raw) => Config): { node: FileNode; config: Config | ModeletError } => ({
    node,
    config: attempt(node, compile),
  });
  switch (node.type) {
    case 'modelet-runtime':
      return { kind: 'runtime', ...of((raw) => compileRuntime(raw, settings.nodeMessageBufferMaxLength ?? 0)) };
    case 'modelet-stage':
      return { kind: 'stage', ...of((raw) => stageOf(raw, running, flows, settings)) };
    case 'modelet-batcher':
      return { kind: 'batcher', ...of(compileBatcher) };
    case 'modelet-collector':
      return { kind: 'collector', ...of(compileCollector) };
    case 'modelet-gate':
      return { kind: 'gate', ...of(compileGate) };
    default:
      return null;
  }
}

function stageOf(raw: Raw, running: RunningNode<FileNode>, flows: FileFlows, settings: Settings): StageConfig {
  const config = compileStage(
    raw,
    (path) => resolveModeletFile(settings, path),
    (name) => flows.lookUp(running, name),
  );
  checkInterpreter(userFolder(settings), config);
  return config;
}

/** Returns the settings, or the error that makes the node unusable. */
function attempt<Config>(node: FileNode, compile: (raw: Raw) => Config): Config | ModeletError {
  if (node.problem !== undefined) return new ModeletError('config_invalid', node.problem);
  try {
    return compile(node);
  } catch (thrown) {
    return thrown instanceof ModeletError ? thrown : new ModeletError('config_invalid', asError(thrown).message);
  }
}
