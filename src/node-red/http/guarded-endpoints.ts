/** Finds the HTTP-in node that a request goes to, by method and path. */
import type { HttpRequest } from './http-types.ts';

interface Address {
  readonly method: string;
  readonly url: string;
}

interface Guarded<Endpoint> {
  readonly endpoint: Endpoint;
  readonly method: string;
  readonly parts: readonly Part[];
}

/** A set of positions in a path, its end included: 1 at each position in the set. */
type Places = Uint8Array;

/** Matches a part of a path pattern: maps the positions at which it may begin to those at which it may end. */
type Part = (starts: Places, path: string) => Places;

export class GuardedEndpoints<Endpoint extends Address> {
  #guarded: readonly Guarded<Endpoint>[] = [];

  /** Replaces the endpoints. */
  set(endpoints: readonly Endpoint[]): void {
    this.#guarded = endpoints.map((endpoint) => ({
      endpoint,
      method: endpoint.method.toUpperCase(),
      parts: partsOf(endpoint.url),
    }));
  }

  find(request: Pick<HttpRequest, 'method' | 'path'>): Endpoint | undefined {
    // As in Express: a GET endpoint also answers HEAD.
    const wanted = request.method === 'HEAD' ? 'GET' : request.method;
    const path = request.path.toLowerCase();
    return this.#guarded.find(({ method, parts }) => method === wanted && isMatch(parts, path))?.endpoint;
  }
}

/**
 * Parses the Express path patterns that HTTP-in nodes use: `:name`, `:name?` and `*`. A regular expression would
 * backtrack: with two parameters in a segment, it tries every way to divide the client's text.
 */
function partsOf(url: string): Part[] {
  const path = url.startsWith('/') ? url : `/${url}`;
  return path.split(/(\/:\w+\?|:\w+|\*)/).map((part) => {
    if (/^\/:\w+\?$/.test(part)) return optionalSegment;
    if (part.startsWith(':')) return segment;
    return part === '*' ? anything : exactly(part.toLowerCase());
  });
}

/** Whether a path matches a pattern. A slash at the end of the path is ignored. */
function isMatch(parts: readonly Part[], path: string): boolean {
  const start = noPlace(path);
  start[0] = 1;
  const ends = parts.reduce((starts, part) => part(starts, path), start);
  return ends[path.length] === 1 || (path.endsWith('/') && ends[path.length - 1] === 1);
}

function noPlace(path: string): Places {
  return new Uint8Array(path.length + 1);
}

function exactly(text: string): Part {
  return (starts, path) => {
    const ends = noPlace(path);
    for (let at = starts.indexOf(1); at >= 0; at = starts.indexOf(1, at + 1)) {
      if (path.startsWith(text, at)) ends[at + text.length] = 1;
    }
    return ends;
  };
}

/** Matches one or more characters, up to the next slash. */
function segment(starts: Places, path: string): Places {
  const ends = noPlace(path);
  let isInside = false;
  for (let at = 0; at < path.length; at += 1) {
    isInside = (isInside || starts[at] === 1) && path[at] !== '/';
    if (isInside) ends[at + 1] = 1;
  }
  return ends;
}

function optionalSegment(starts: Places, path: string): Places {
  const ends = segment(exactly('/')(starts, path), path);
  return ends.map((end, at) => end | (starts[at] as number));
}

function anything(starts: Places, path: string): Places {
  const first = starts.indexOf(1);
  return first < 0 ? starts : noPlace(path).fill(1, first);
}
