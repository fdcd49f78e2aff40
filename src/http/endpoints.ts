/**
 * The table of compiled endpoints that a host serves. A deploy replaces it in one step. Open requests keep the
 * endpoint with which they began.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PathRules } from '../core/endpoints.ts';
import { Exchange } from './exchange.ts';
import { OwnForm } from './own-form.ts';
import { isForFlow, originForm, unescapedPath } from './request-head.ts';
import type { ServedEndpoint } from './served-endpoint.ts';
import { Models } from './v2/models.ts';

/** The rules of Express, if Node-RED's settings do not change them. */
const USUAL: PathRules = { caseSensitive: false, strict: false };

export class Endpoints {
  #table: ReadonlyMap<string, ServedEndpoint> = new Map();
  /** null: no endpoint is a model. */
  #models: Models | null = null;
  #rules: PathRules = USUAL;

  replace(endpoints: readonly ServedEndpoint[], rules: PathRules = USUAL): void {
    this.#rules = rules;
    this.#table = new Map(
      endpoints.map((endpoint) => [this.#keyOf(endpoint.spec.method, endpoint.spec.path), endpoint]),
    );
    this.#models = endpoints.some(({ spec }) => spec.model !== null) ? new Models(endpoints) : null;
  }

  /** Returns the one spelling of all paths that count as equal. */
  spelled(path: string): string {
    const { caseSensitive, strict } = this.#rules;
    const unescaped = unescapedPath(path);
    const spelled = caseSensitive ? unescaped : unescaped.toLowerCase();
    return strict || spelled.length === 1 || !spelled.endsWith('/') ? spelled : spelled.slice(0, -1);
  }

  /** Methods of the endpoints at a path, in upper case. */
  methodsAt(path: string): string[] {
    return METHODS.filter((method) => this.#table.has(this.#keyOf(method, path)));
  }

  /** Returns the endpoint that takes WebSockets at a path, or undefined. */
  socketAt(path: string): ServedEndpoint | undefined {
    return METHODS.map((method) => this.#table.get(this.#keyOf(method, path))).find((one) => one && isSocket(one));
  }

  get hasSockets(): boolean {
    return [...this.#table.values()].some(isSocket);
  }

  get size(): number {
    return this.#table.size;
  }

  /**
   * Serves a request for which there is an endpoint, as itself or as a model of the KServe v2 protocol. Returns false, and
   * leaves the request as it is, if there is no endpoint, or if only a flow can read the request.
   * @param target of the request, below which the host serves it
   */
  take(request: IncomingMessage, response: ServerResponse, target: string | undefined): boolean {
    const url = originForm(target);
    const queryAt = url.indexOf('?');
    const path = queryAt < 0 ? url : url.slice(0, queryAt);
    const endpoint = this.#table.get(this.#keyOf(request.method ?? '', path));
    if (!endpoint) return this.#models?.take(request, response, path) ?? false;
    const query = queryAt < 0 ? '' : url.slice(queryAt + 1);
    if (isForFlow(request.headers, query, endpoint.spec.mediaTypes)) return false;
    endpoint.origins?.mark(request, response);
    new Exchange(endpoint, request, response, (call) => new OwnForm(call)).begin();
    return true;
  }

  /**
   * The same for models only, which no flow can serve.
   * @param body what a parser has read, if the body is read already
   */
  takeModel(request: IncomingMessage, response: ServerResponse, target: string, body?: unknown): boolean {
    return this.#models?.take(request, response, originForm(target).split('?', 1)[0] as string, body) ?? false;
  }

  #keyOf(method: string, path: string): string {
    return `${method.toUpperCase()} ${this.spelled(path)}`;
  }
}

const METHODS = ['POST', 'PUT', 'PATCH'];

function isSocket({ spec }: ServedEndpoint): boolean {
  return spec.parts?.stream?.format === 'websocket';
}
