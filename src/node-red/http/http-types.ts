/** What is used of the requests and responses of Express, on which Node-RED's HTTP nodes rest. */
import type { AnswerHeaders, Headers } from '../request/request-id.ts';

export interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  /** All of it has come. */
  readonly complete: boolean;
  readonly destroyed: boolean;
  /** What a body parser has made of the body. */
  body?: unknown;
  /** Set by a body parser that has read the body. */
  readonly _body?: boolean;
}

export interface HttpResponse extends AnswerHeaders {
  readonly writableFinished: boolean;
  readonly writableEnded: boolean;
  /** More has been written than its client has taken, and `drain` follows. */
  readonly writableNeedDrain?: boolean;
  readonly destroyed: boolean;
  readonly statusCode: number;
  /** Set by an HTTP-in node as it makes the request a message. */
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

/** GET and HEAD: has no body, and its answer may be kept by caches. */
export function asksOnly({ method }: HttpRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}
