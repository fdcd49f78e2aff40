/** The used part of Express behind Node-RED's HTTP nodes: its requests, its responses, and handlers of Node-RED's own. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { NodeAPI } from 'node-red';
import { type HttpSettings, httpRoot } from '../../config/http/http-settings.ts';
import type { AnswerHeaders } from '../../http/request-head.ts';

export interface HttpRequest {
  readonly method: string;
  /** Below the root of the application that has the request now. */
  readonly path: string;
  readonly originalUrl: string;
  /** Path and query below that root. Express follows a change. */
  url: string;
  readonly headers: Record<string, string | string[] | undefined>;
  /** Whether the whole request has arrived. */
  readonly complete: boolean;
  readonly destroyed: boolean;
  /** The body as a body parser has decoded it. */
  body?: unknown;
  /** Whether something has read the body; parsers then leave it alone. */
  _body?: boolean;
}

export interface HttpResponse extends AnswerHeaders {
  readonly writableFinished: boolean;
  readonly writableEnded: boolean;
  /** Whether the client has not yet read everything that was written; `drain` follows. */
  readonly writableNeedDrain?: boolean;
  readonly destroyed: boolean;
  readonly statusCode: number;
  /** Set by an HTTP-in node when it turns the request into a message. */
  readonly _msgid?: string;
  status(code: number): HttpResponse;
  set(name: string, value: string): HttpResponse;
  get(name: string): unknown;
  vary(field: string): HttpResponse;
  json(body: unknown): HttpResponse;
  jsonp(body: unknown): HttpResponse;
  send(body: unknown): HttpResponse;
  sendStatus(code: number): HttpResponse;
  end(): unknown;
  on(event: 'error', listener: () => void): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
  off(event: 'close' | 'drain', listener: () => void): unknown;
}

/** Returns the path of a request, with the one below which HTTP-in nodes listen. */
export function fullPath(settings: HttpSettings, { path }: Pick<HttpRequest, 'path'>): string {
  return `${httpRoot(settings).replace(/\/$/, '')}${path}`;
}

/**
 * Loads a handler from the packages that Node-RED's HTTP-in nodes use, so that it is exactly theirs.
 * @throws Error if the package is not found
 */
export function coreHandler<Handler>(RED: NodeAPI, name: string, ...options: readonly unknown[]): Handler {
  const { coreNodesDir = '/' } = RED.settings as { readonly coreNodesDir?: string };
  const require = createRequire(join(coreNodesDir, 'package.json'));
  return (require(name) as (...options: readonly unknown[]) => Handler)(...options);
}
