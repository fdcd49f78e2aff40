/** Lists the HTTP-in nodes that lead to pipelines, for people: which are compiled, and why others are not. */
import type { EndpointView } from '../../observe/views/view.ts';
import type { Pipeline } from '../pipeline.ts';

export function endpointViews({ deployment, barred }: Pick<Pipeline, 'deployment' | 'barred'>): EndpointView[] {
  const { compiled, routes } = deployment;
  const behind = (entries: readonly string[]): Pick<EndpointView, 'stages' | 'runtimes'> => {
    const reached = entries.flatMap((entry) => routes.get(entry)?.route ?? []);
    return {
      stages: [...new Set(reached.flatMap(({ stages }) => stages))],
      runtimes: [...new Set(reached.map(({ runtime }) => runtime))],
    };
  };
  const served = compiled.endpoints.map((endpoint) => ({ ...endpoint, entries: [endpoint.entry], reason: barred }));
  return [...served, ...compiled.uncompiled].map(({ id, method, path, entries, reason }) => ({
    id,
    method: method.toUpperCase(),
    path,
    ...behind(entries),
    reason,
  }));
}
