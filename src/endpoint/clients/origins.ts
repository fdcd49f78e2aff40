/**
 * Lets scripts of web pages from other origins call endpoints (CORS). Browsers ask for that themselves, and keep an answer
 * from its script unless it allows their page. Requests of other clients are neither refused nor changed by this.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ANY_ORIGIN } from '../../config/formats/urls.ts';

/** What an endpoint does for pages of other origins. */
export interface OtherOrigins {
  /** Whether a page may call, also by a WebSocket. @param origin header of the browser */
  allows(origin: string | undefined): boolean;
  /** Writes the headers of an answer of any kind. */
  mark(request: IncomingMessage, response: ServerResponse): void;
  /** Answers the question of a browser before a request. Returns false, and does nothing, if it is another request or not allowed. */
  preflight(request: IncomingMessage, response: ServerResponse): boolean;
}

const ALLOW = 'Access-Control-Allow-Origin';
/** Headers of answers that scripts may read, besides those that they always may. */
const EXPOSED = 'X-Request-Id, Retry-After, x-should-retry, Inference-Header-Content-Length';
const METHODS = 'GET, HEAD, POST, PUT, PATCH';
/** How long a browser need not ask again, in seconds. */
const MAX_AGE = '600';

export class Origins implements OtherOrigins {
  #allowed: ReadonlySet<string> = new Set();

  /** Replaces all origins. @param origins as `parseOrigins` gives them */
  replace(origins: readonly string[]): void {
    this.#allowed = new Set(origins);
  }

  /** Whether there is any. */
  get areSet(): boolean {
    return this.#allowed.size > 0;
  }

  allows(origin: string | undefined): boolean {
    return origin !== undefined && (this.#allowed.has(origin) || this.#allowed.has(ANY_ORIGIN));
  }

  mark({ headers: { origin } }: IncomingMessage, response: ServerResponse): void {
    if (!this.areSet) return;
    const isOpen = this.#allowed.has(ANY_ORIGIN);
    if (!isOpen) vary(response, 'Origin');
    if (isOpen || this.allows(origin)) {
      response.setHeader(ALLOW, isOpen ? ANY_ORIGIN : (origin as string));
      response.setHeader('Access-Control-Expose-Headers', EXPOSED);
    } else {
      // Node-RED before version 5 allows all in front of its HTTP-in nodes.
      response.removeHeader(ALLOW);
    }
  }

  preflight(request: IncomingMessage, response: ServerResponse): boolean {
    const { origin, 'access-control-request-method': method, ...headers } = request.headers;
    if (request.method !== 'OPTIONS' || method === undefined || !this.allows(origin)) return false;
    this.mark(request, response);
    vary(response, 'Access-Control-Request-Headers');
    const wanted = headers['access-control-request-headers'];
    if (wanted !== undefined) response.setHeader('Access-Control-Allow-Headers', wanted);
    response.setHeader('Access-Control-Allow-Methods', METHODS);
    response.setHeader('Access-Control-Max-Age', MAX_AGE);
    response.writeHead(204).end();
    return true;
  }
}

/** Says that an answer depends on a header of its request, so that no cache gives it to other pages. */
function vary(response: ServerResponse, header: string): void {
  const before = response.getHeader('Vary');
  response.setHeader('Vary', before === undefined ? header : `${String(before)}, ${header}`);
}
