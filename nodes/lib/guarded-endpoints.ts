/** The HTTP-in nodes that lead to a pipeline, by the requests that go to them. */
import type { Endpoint } from './endpoints.ts';
import type { HttpRequest } from './http-types.ts';

interface Guarded {
  readonly endpoint: Endpoint;
  readonly method: string;
  readonly path: RegExp;
}

export class GuardedEndpoints {
  #guarded: readonly Guarded[] = [];

  /** Those from now on. */
  set(endpoints: readonly Endpoint[]): void {
    this.#guarded = endpoints.map((endpoint) => ({
      endpoint,
      method: endpoint.method.toUpperCase(),
      path: toPattern(endpoint.url),
    }));
  }

  find(request: HttpRequest): Endpoint | undefined {
    // As Express has it: what answers to GET answers to HEAD.
    const wanted = request.method === 'HEAD' ? 'GET' : request.method;
    return this.#guarded.find(({ method, path }) => method === wanted && path.test(request.path))?.endpoint;
  }
}

/** Express' path patterns, as far as HTTP-in nodes use them: `:name`, `:name?` and `*`. */
function toPattern(url: string): RegExp {
  const path = url.startsWith('/') ? url : `/${url}`;
  const source = path
    .split(/(\/:\w+\?|:\w+|\*)/)
    .map((part) => {
      if (/^\/:\w+\?$/.test(part)) return '(?:/[^/]+)?';
      if (part.startsWith(':')) return '[^/]+';
      return part === '*' ? '.*' : part.replace(/[.+^${}()|[\]\\]/g, '\\$&');
    })
    .join('');
  return new RegExp(`^${source}/?$`, 'i');
}
