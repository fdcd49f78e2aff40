/**
 * Middleware in front of the HTTP-in nodes that lead to a pipeline. Lets compiled endpoints take their requests. For the
 * others, finds the node by method and path, and prepares the request's body and the answer's form.
 * Holds requests during a deploy: their routes do not exist until the new flows have started, and Node-RED would answer
 * 404. Answers 503 when the flows have stopped for good.
 */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { type HttpSettings, httpRoot } from '../../config/http/http-settings.ts';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import type { HttpInNode } from '../../flow/graph.ts';
import { originForm, unescapedPath } from '../../http/request-head.ts';
import type { Endpoint } from '../deploy/endpoints.ts';
import { isEditors, moveBeforePreflights } from '../deploy/http-facts.ts';
import { answerError } from '../request/direct-answers.ts';
import type { HttpClients } from '../request/http-clients.ts';
import { asksOnly, setAnswerForm } from './answer-form.ts';
import { BodyReader } from './bodies.ts';
import type { CompiledHost } from './compiled-host.ts';
import type { HttpRequest, HttpResponse } from './http-types.ts';

type HoldState =
  | { readonly tag: 'open' }
  | { readonly tag: 'holding'; readonly held: (() => void)[] }
  | { readonly tag: 'closed'; readonly error: ModeletError };

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
type PathPositions = Uint8Array;

/** Matches a part of a path pattern: maps the positions at which it may begin to those at which it may end. */
type Part = (starts: PathPositions, path: string) => PathPositions;

const MOST_HELD = 1000;
/** A deploy seldom takes longer. */
export const AGAIN = { retryAfterSeconds: 1 };

export class HttpHold {
  readonly #clients: HttpClients;
  readonly #compiled: CompiledHost;
  #state: HoldState = { tag: 'open' };
  readonly #endpoints: GuardedEndpoints<Endpoint> = new GuardedEndpoints();
  readonly #others: GuardedEndpoints<HttpInNode> = new GuardedEndpoints();
  readonly #bodies: BodyReader;
  readonly #RED: NodeAPI;
  /** Path below which the HTTP-in nodes listen, without a slash at its end. */
  readonly #root: string;
  readonly #prepared: WeakSet<HttpResponse> = new WeakSet();

  /** @param clients records each request that passes */
  constructor(RED: NodeAPI, clients: HttpClients, compiled: CompiledHost) {
    this.#RED = RED;
    this.#clients = clients;
    this.#compiled = compiled;
    this.#bodies = new BodyReader(RED);
    this.#root = httpRoot(RED.settings as HttpSettings).replace(/\/$/, '');
    const app = RED.httpNode as { use(handler: RequestHandler): void } | false;
    // Added once, before any HTTP-in node: a released request continues with the routes that exist at that time.
    // The compiler of endpoints knows it by its name, see http-facts.ts.
    const modeletRequests: RequestHandler = (request, response, next) => this.#handle(request, response, next);
    const modeletPreflights: RequestHandler = (request, response, next) => {
      if (!this.#preflight(request, response)) next();
    };
    if (!app) return;
    app.use(modeletRequests);
    app.use(modeletPreflights);
    moveBeforePreflights(app);
  }

  /**
   * Replaces the guarded endpoints.
   * @param others other HTTP-in nodes, whose clients a deploy must not leave without an answer
   */
  guard(endpoints: readonly Endpoint[], others: readonly HttpInNode[]): void {
    this.#endpoints.set(endpoints);
    this.#others.set(others);
    this.#bodies.install((request) => this.#isOurs(request));
  }

  /** Holds requests until `open` or `close`, one of which must follow: no request has a separate time limit here. */
  hold(): void {
    if (this.#state.tag !== 'holding') this.#state = { tag: 'holding', held: [] };
  }

  /** Lets all requests through; held requests go first. */
  open(): void {
    this.#leave({ tag: 'open' });
  }

  /** Answers requests to the guarded endpoints with an error, held requests included. */
  close(error: ModeletError): void {
    this.#leave({ tag: 'closed', error });
  }

  #leave(next: HoldState): void {
    const held = this.#state.tag === 'holding' ? this.#state.held : [];
    this.#state = next;
    for (const release of held) release();
  }

  #handle(request: HttpRequest, response: HttpResponse, next: () => void): void {
    this.#bodies.reached(request);
    // The client disconnected while the request was held. Its `close` event is over, so nothing would end the request.
    if (response.destroyed || this.#compiled.takeInApp(request, response)) return;
    const endpoint = this.#find(request);
    if (!endpoint) {
      const other = this.#others.find(request);
      if (other) this.#clients.enter(request, response, other.id, false);
      next();
      return;
    }
    this.#prepare(request, response, endpoint);
    this.#admit(request, response, endpoint, next);
  }

  /** Answers a browser that asks before a page of another origin calls. Returns false if it asks for none of ours. */
  #preflight(request: HttpRequest, response: HttpResponse): boolean {
    const { method, path, headers } = request;
    const wanted = headers['access-control-request-method'];
    if (method !== 'OPTIONS' || typeof wanted !== 'string') return false;
    const endpoint = this.#endpoints.find({ method: wanted.toUpperCase(), path: unescapedPath(path) });
    return endpoint?.origins?.preflight(request, response) ?? false;
  }

  /** Whether a request that the editor's server has first leads to a pipeline. */
  #isOurs(request: HttpRequest): boolean {
    const whole = originForm(request.originalUrl).split('?', 1)[0] as string;
    const { method } = request;
    if (!whole.startsWith(`${this.#root}/`) || isEditors(this.#RED, method, whole)) return false;
    return this.#endpoints.find({ method, path: unescapedPath(whole.slice(this.#root.length)) }) !== undefined;
  }

  /** Finds the endpoint of a request, also if its path is encoded more than it must be, and Express would not know it. */
  #find(request: HttpRequest): Endpoint | undefined {
    const { method, path } = request;
    const found = this.#endpoints.find(request);
    const unescaped = found ? path : unescapedPath(path);
    if (unescaped === path) return found;
    const other = this.#endpoints.find({ method, path: unescaped });
    if (other) request.url = request.url.replace(path, () => unescaped);
    return other;
  }

  /** Prepares a request and its response, only once even if the request returns after a deploy. */
  #prepare(request: HttpRequest, response: HttpResponse, endpoint: Endpoint): void {
    if (this.#prepared.has(response)) return;
    const { maxBytes, countRefused, countUnwritten, origins } = endpoint;
    this.#prepared.add(response);
    origins?.mark(request, response);
    setAnswerForm(request, response, countUnwritten);
    if (asksOnly(request)) return;
    this.#bodies.expect(request, { maxBytes, countRefused });
  }

  /** Whether the request's client may use all runtimes behind the endpoint. Answers it if not. */
  #isAllowed(request: HttpRequest, response: HttpResponse, { clients, countRefused }: Endpoint): boolean {
    try {
      for (const one of clients) one.admit(request.headers, response, `${this.#root}${request.path}`);
      return true;
    } catch (thrown) {
      const error = asModeletError(thrown, 'unauthorized');
      countRefused(error);
      answerError(request.headers, response, error);
      return false;
    }
  }

  #admit(request: HttpRequest, response: HttpResponse, endpoint: Endpoint, next: () => void): void {
    if (!endpoint.held || this.#state.tag === 'open') {
      // Not before: a deploy may remove the key of a request that is held.
      if (!this.#isAllowed(request, response, endpoint)) return;
      this.#clients.enter(request, response, endpoint.id, true);
      next();
    } else if (this.#state.tag === 'closed') {
      answerError(request.headers, response, this.#state.error);
    } else if (this.#state.held.length < MOST_HELD) {
      this.#state.held.push(() => this.#handle(request, response, next));
    } else {
      const error = new ModeletError('capacity_exceeded', 'too many requests came during a deploy', AGAIN);
      endpoint.countRefused(error);
      answerError(request.headers, response, error);
    }
  }
}

/** Finds an HTTP-in node by method and path. */
export class GuardedEndpoints<Endpoint extends Address> {
  #guarded: readonly Guarded<Endpoint>[] = [];

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

function noPlace(path: string): PathPositions {
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
function segment(starts: PathPositions, path: string): PathPositions {
  const ends = noPlace(path);
  let isInside = false;
  for (let at = 0; at < path.length; at += 1) {
    isInside = (isInside || starts[at] === 1) && path[at] !== '/';
    if (isInside) ends[at + 1] = 1;
  }
  return ends;
}

function optionalSegment(starts: PathPositions, path: string): PathPositions {
  const ends = segment(exactly('/')(starts, path), path);
  return ends.map((end, at) => end | (starts[at] as number));
}

function anything(starts: PathPositions, path: string): PathPositions {
  const first = starts.indexOf(1);
  return first < 0 ? starts : noPlace(path).fill(1, first);
}
