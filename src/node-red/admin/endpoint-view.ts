/** Lists the HTTP-in nodes that lead to pipelines, for people: which are compiled, and why others are not. */
import type { EndpointView } from '../../observe/views/view.ts';
import type { Deployment } from '../deploy/deployment.ts';

export function endpointViews({ compiled, routes }: Pick<Deployment, 'compiled' | 'routes'>): EndpointView[] {
  const behind = (entries: readonly string[]): Pick<EndpointView, 'stages' | 'runtimes'> => {
    const reached = entries.flatMap((entry) => routes.get(entry)?.route ?? []);
    return {
      stages: [...new Set(reached.flatMap(({ stages }) => stages))],
      runtimes: [...new Set(reached.map(({ runtime }) => runtime))],
    };
  };
  const served = compiled.endpoints.map((endpoint) => ({ ...endpoint, entries: [endpoint.entry], reason: null }));
  return [...served, ...compiled.uncompiled].map(({ id, method, path, entries, reason }) => ({
    id,
    method: method.toUpperCase(),
    path,
    ...behind(entries),
    reason,
  }));
}
