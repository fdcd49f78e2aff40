/** Compiles the flows of a file for a process without Node-RED: its endpoints, and what their runtimes need. */
import { barredBySettings, httpRoot } from '../config/http/http-settings.ts';
import { type CompiledEndpoints, compileEndpoints } from '../flow/http/endpoints.ts';
import { type CompiledDefinitions, compileDefinitions } from '../flow/read/compile-definitions.ts';
import { pathsOf } from '../flow/read/compiled-nodes.ts';
import { flawOf } from '../http/served-endpoint.ts';
import type { FlowSource } from './flow-file.ts';

export interface HeadlessFlows extends CompiledDefinitions {
  readonly source: FlowSource;
  readonly compiled: CompiledEndpoints;
}

/** @throws Error if the flows cannot be expanded */
export function compileFlows(source: FlowSource): HeadlessFlows {
  const { settings } = source;
  const definitions = compileDefinitions(source.definitions, settings);
  const { graph, plan, nodes } = definitions;
  const compiled = compileEndpoints(graph, {
    routes: plan.routes,
    apart: plan.apart,
    invalid: plan.invalid,
    v2Paths: pathsOf(nodes, 'v2Path'),
    flawOf,
    root: httpRoot(settings),
    barred:
      settings.httpNodeRoot === false ? 'Node-RED has no HTTP-in nodes (httpNodeRoot)' : barredBySettings(settings),
    taken: new Map(),
  });
  return { source, ...definitions, compiled };
}
