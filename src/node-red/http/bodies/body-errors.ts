/**
 * Answers requests whose body an HTTP-in node's parser refuses: invalid JSON, a truncated form with files, or more than
 * `apiMaxLength`. Node-RED answers these with a bare 500 before any flow runs. A request that leads to a pipeline gets
 * an answer that says what is wrong. An HTTP-in node logs its parser's error and answers right after, so the log entry
 * supplies the error for the answer.
 */
import { EventEmitter } from 'node:events';
import type { NodeAPI } from 'node-red';
import { apiMaxLength, type HttpSettings } from '../../../config/http/http-settings.ts';
import { type ErrorCode, ModeletError } from '../../../core/errors.ts';
import { answerError } from '../../request/direct-answers.ts';
import type { HttpRequest, HttpResponse } from '../http-types.ts';
import { isTooLarge } from './request-body.ts';

/** The part of a `body-parser` or `raw-body` error that the log entry keeps. */
interface ParserError {
  readonly name: string;
  readonly message: string;
}

/** Error codes by the names of the parsers' errors. */
const CODES: ReadonlyMap<string, ErrorCode> = new Map([
  ['SyntaxError', 'bad_request'],
  ['BadRequestError', 'bad_request'],
  ['PayloadTooLargeError', 'payload_too_large'],
  ['UnsupportedMediaTypeError', 'unsupported_media'],
]);

export class BodyErrors {
  /** The error that an HTTP-in node logged last; cleared in the next microtask. */
  #logged: unknown;

  /** Largest body that HTTP-in nodes parse, in the notation of Node-RED's settings. */
  readonly #limit: string;

  constructor(RED: NodeAPI) {
    const { log } = RED;
    this.#limit = apiMaxLength(RED.settings as HttpSettings);
    const listener = new EventEmitter();
    listener.on('log', ({ type, msg }: { readonly type?: string; readonly msg?: unknown }) => {
      if (type !== 'http in') return;
      this.#logged = msg;
      queueMicrotask(() => {
        this.#logged = undefined;
      });
    });
    (log as unknown as { addHandler?(handler: EventEmitter): void }).addHandler?.(listener);
  }

  /**
   * Replaces Node-RED's answer to a refused body, for a request that leads to a pipeline. Call before any node receives
   * the request. @param count called with each error that is answered here
   */
  watch(request: HttpRequest, response: HttpResponse, count: (error: ModeletError) => void): void {
    const { sendStatus } = response;
    response.sendStatus = (status) => {
      const isRefusal = status === 500 && response._msgid === undefined && !response.headersSent;
      const error = isRefusal && !isCutOff(request) ? this.#errorOf(request) : null;
      if (!error) return sendStatus.call(response, status);
      count(error);
      answerError(request.headers, response, error);
      return response;
    };
  }

  #errorOf(request: HttpRequest): ModeletError | null {
    const thrown = readLogged(this.#logged);
    if (!thrown) return null;
    if (isTooLarge(request)) return new ModeletError('payload_too_large', 'the body is larger than the runtime takes');
    const code = CODES.get(thrown.name) ?? codeByRequest(thrown, request);
    return code ? new ModeletError(code, this.#describe(code, thrown)) : null;
  }

  #describe(code: ErrorCode, { name, message }: ParserError): string {
    if (code === 'payload_too_large') return `the body is larger than ${this.#limit}, the apiMaxLength of Node-RED`;
    if (name === 'SyntaxError') return `the body is not valid JSON: ${message}`;
    return `the body cannot be read: ${message}`;
  }
}

/** Whether the client disconnected before the whole body arrived. Nobody waits for an answer, so nothing is counted. */
function isCutOff({ destroyed, complete }: HttpRequest): boolean {
  return destroyed && !complete;
}

/**
 * Returns the code for an error without a known name, or undefined if it is not about the body. Other middleware, for
 * example for authentication, throws its own errors; Node-RED answers those.
 */
function codeByRequest({ name }: ParserError, { headers, _body: isRead }: HttpRequest): ErrorCode | undefined {
  if (!isRead) return undefined;
  // A parser could not parse the Content-Type.
  if (name === 'TypeError') return 'unsupported_media';
  // A form that is truncated or does not match its boundary: its parser throws plain errors after reading the body.
  if (/^\s*multipart\//i.test(String(headers['content-type']))) return 'bad_request';
  // With a Content-Encoding, zlib throws for a body that is not compressed as declared.
  return headers['content-encoding'] === undefined ? undefined : 'bad_request';
}

/**
 * Reads a logged error: the Error itself, or the JSON text for the editor's sidebar. The sidebar's log handler replaces
 * the Error in the log entry if it runs first.
 */
function readLogged(logged: unknown): ParserError | null {
  if (logged instanceof Error) return logged;
  if (typeof logged !== 'string') return null;
  try {
    const { data } = JSON.parse(logged) as { data?: Partial<ParserError> };
    return typeof data?.name === 'string' ? { name: data.name, message: String(data.message) } : null;
  } catch {
    return null;
  }
}
