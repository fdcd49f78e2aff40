/**
 * Bodies that the parsers of HTTP-in nodes refuse: JSON that is none, a form with files that is cut off, or more than
 * `apiMaxLength`. Node-RED answers
 * them with a bare 500, before any flow. Where the request leads to a pipeline it gets the answer that tells what is
 * wrong. An HTTP-in node logs what its parser has thrown and answers right after, which is how the one is known here
 * when the other is to be written.
 */
import { EventEmitter } from 'node:events';
import type { NodeAPI } from 'node-red';
import { type ErrorCode, ModeletError } from '../../core/errors.ts';
import { answerError } from '../request/messages.ts';
import type { HttpRequest, HttpResponse } from './http-types.ts';
import { isTooLarge } from './request-body.ts';

/** What is left of what `body-parser` and `raw-body` have thrown. */
interface ParserError {
  readonly name: string;
  readonly message: string;
}

/** By the names that they give to their errors. */
const CODES: ReadonlyMap<string, ErrorCode> = new Map([
  ['SyntaxError', 'bad_request'],
  ['BadRequestError', 'bad_request'],
  ['PayloadTooLargeError', 'payload_too_large'],
  ['UnsupportedMediaTypeError', 'unsupported_media'],
]);

export class BodyErrors {
  /** What an HTTP-in node has logged in this turn of the event loop. */
  #logged: unknown;

  /** Largest body that HTTP-in nodes parse, as Node-RED reads it. */
  readonly #limit: string;

  constructor({ log, settings }: NodeAPI) {
    this.#limit = String((settings as { apiMaxLength?: unknown }).apiMaxLength ?? '5mb');
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

  /** For a request that leads to a pipeline, before any node has it. `count` gets what is answered here. */
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
    if (name === 'SyntaxError') return `the body is not valid JSON, or no object or array: ${message}`;
    return `the body cannot be read: ${message}`;
  }
}

/** Its client has gone in the middle of it: it has not become a request, and nobody waits for an answer. */
function isCutOff({ destroyed, complete }: HttpRequest): boolean {
  return destroyed && !complete;
}

/** Whoever stands between, to see who may ask say, throws other things; those stay Node-RED's. */
function codeByRequest({ name }: ParserError, { headers, _body: isRead }: HttpRequest): ErrorCode | undefined {
  if (!isRead) return undefined;
  // A Content-Type that is none, which a parser reads to know how to read the body.
  if (name === 'TypeError') return 'unsupported_media';
  // A form that is cut off, or not as its boundary says: what reads forms throws plain errors, once it has the body.
  if (/^\s*multipart\//i.test(String(headers['content-type']))) return 'bad_request';
  // What zlib says of what is not compressed as it claims.
  return headers['content-encoding'] === undefined ? undefined : 'bad_request';
}

/** An error as it was, or as the sidebar of the editor is told of it: whoever comes first to a log entry changes it. */
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
