/** HTTP-in nodes, by the requests that go to them. */
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

/** Places in a path, its end included: 1 at each that is meant. */
type Places = Uint8Array;

/** A part of a path pattern: from the places at which it may begin to those at which it may end. */
type Part = (starts: Places, path: string) => Places;

export class GuardedEndpoints<Endpoint extends Address> {
  #guarded: readonly Guarded<Endpoint>[] = [];

  /** Those from now on. */
  set(endpoints: readonly Endpoint[]): void {
    this.#guarded = endpoints.map((endpoint) => ({
      endpoint,
      method: endpoint.method.toUpperCase(),
      parts: partsOf(endpoint.url),
    }));
  }

  find(request: HttpRequest): Endpoint | undefined {
    // As Express has it: what answers to GET answers to HEAD.
    const wanted = request.method === 'HEAD' ? 'GET' : request.method;
    const path = request.path.toLowerCase();
    return this.#guarded.find(({ method, parts }) => method === wanted && isMatch(parts, path))?.endpoint;
  }
}

/**
 * Express' path patterns, as far as HTTP-in nodes use them: `:name`, `:name?` and `*`. No regular expression: with two
 * parameters in one segment it would try each way to divide what a client has written there.
 */
function partsOf(url: string): Part[] {
  const path = url.startsWith('/') ? url : `/${url}`;
  return path.split(/(\/:\w+\?|:\w+|\*)/).map((part) => {
    if (/^\/:\w+\?$/.test(part)) return optionalSegment;
    if (part.startsWith(':')) return segment;
    return part === '*' ? anything : exactly(part.toLowerCase());
  });
}

/** A slash at the end is of no account. */
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

/** One character or more up to the next slash. */
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
