/**
 * The bodies of requests that reach a pipeline through a flow: each arrives exactly or gets a coded error. Node-RED's own
 * parsers would change some bodies in silence, and answer others with a bare 500. A reader stands in front of the parsers
 * of each HTTP-in node, behind its authentication and middleware, as Node-RED's own capture of raw bodies does: it marks a
 * body as read, and the parsers stand aside. Forms and plain bytes stay theirs. The first pipeline node that a message
 * reaches decodes msgpack, and JSON that nothing has parsed yet.
 */
import { IncomingMessage } from 'node:http';
import type { ErrorRequestHandler, NextFunction, RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import type { StageConfig } from '../../config/compile-stage.ts';
import { type HttpSettings, jsonLimit } from '../../config/http/http-settings.ts';
import { asError, asModeletError, type ErrorCode, ModeletError } from '../../core/errors.ts';
import {
  type BodyTerms,
  checkMediaType,
  decodeBody,
  decodeText,
  exactText,
  notText,
  readBody,
} from '../../http/body.ts';
import { type BodyKind, type BodyType, type RequestHead, readHead } from '../../http/request-head.ts';
import { rowFormatOf } from '../../http/rows/row-input.ts';
import { parseJsonValue } from '../../wire/codec/json-text.ts';
import type { EntryTerms } from '../deploy/endpoints.ts';
import { type Layer, layersOf } from '../deploy/http-facts.ts';
import { answerError } from '../request/direct-answers.ts';
import { checkTimeout, type ModeletTrace, type PipelineMessage } from '../request/messages.ts';
import type { HttpRequest, HttpResponse } from './http-types.ts';

type ReadTerms = Pick<EntryTerms, 'maxBytes' | 'countRefused'>;

/** Names of the parsers that HTTP-in nodes use, first and last, and of the layers here. */
const FIRST = 'jsonParser';
const LAST = 'rawBodyParser';
const READER = 'modeletBody';

/** Error codes by the status that a parser wants. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'bad_request',
  413: 'payload_too_large',
  415: 'unsupported_media',
};

/** Matches the property expression of the payload or a part of it. */
const IS_PAYLOAD = /^payload(?![\w$])/;

/** The body that the HTTP-in node provided, by request, if it is decoded: a text is then not taken for JSON once more. */
const givenBodies: WeakMap<object, unknown> = new WeakMap();
/** Requests whose `body` has the bytes of a body that should be text and is not. A stage refuses them. */
const notTexts: WeakSet<object> = new WeakSet();

export class BodyReader {
  readonly #RED: NodeAPI;
  readonly #jsonLimit: ReturnType<typeof jsonLimit>;
  readonly #expected: WeakMap<HttpRequest, ReadTerms> = new WeakMap();
  /** Requests that have passed everything in front of the parsers. */
  readonly #arrived: WeakSet<HttpRequest> = new WeakSet();
  /** Requests whose bodies the editor's parsers must leave alone. */
  readonly #spared: WeakSet<HttpRequest> = new WeakSet();

  constructor(RED: NodeAPI) {
    this.#RED = RED;
    this.#jsonLimit = jsonLimit(RED.settings as HttpSettings);
  }

  /** Takes over the body of a request. Call before an HTTP-in node gets the request. */
  expect(request: HttpRequest, terms: ReadTerms): void {
    this.#expected.set(request, terms);
  }

  /**
   * Stands in front of the parsers of all HTTP-in nodes, and of the editor's, which come first where the editor has the
   * same root. Call after each deploy, because HTTP-in nodes make new parsers.
   * @param isOurs whether a request leads to a pipeline
   */
  install(isOurs: (request: HttpRequest) => boolean): void {
    const read: RequestHandler = (request, response, next) => this.#read(request, response, next);
    const onFailed: ErrorRequestHandler = (error, request, response, next) =>
      this.#failed(error, request, response, next);
    const spare: RequestHandler = (request: HttpRequest, _response, next) => {
      if (!request._body && isOurs(request)) this.#spare(request);
      next();
    };
    for (const { route } of layersOf(this.#RED.httpNode)) {
      const stack = route?.stack as Layer[] | undefined;
      const last = stack?.findIndex(({ name }) => name === LAST) ?? -1;
      if (!stack || last < 0 || stack[last + 1]?.name === READER) continue;
      insert(stack, last + 1, onFailed);
      const first = stack.findIndex(({ name }) => name === FIRST);
      insert(stack, first, read);
    }
    // The application of the nodes' own admin routes is mounted in the editor's.
    const { parent } = (this.#RED.httpAdmin || {}) as unknown as { readonly parent?: unknown };
    const editors = layersOf(parent) as Layer[];
    const at = editors.findIndex(({ name }) => name === FIRST);
    if (at >= 0 && editors[at - 1]?.name !== READER) insert(editors, at, spare);
  }

  /** Gives a request that the editor's parsers have left alone to those behind. Call where it reaches the HTTP-in nodes. */
  reached(request: HttpRequest): void {
    if (this.#spared.delete(request)) request._body = false;
  }

  #spare(request: HttpRequest): void {
    this.#spared.add(request);
    request._body = true;
  }

  #read(request: HttpRequest, response: HttpResponse, next: NextFunction): void {
    const terms = this.#expected.get(request);
    if (!terms || request._body) {
      next();
      return;
    }
    this.#arrived.add(request);
    const refuse = (error: ModeletError): void => this.#refuse(error, request, response);
    let head: RequestHead;
    try {
      head = readHead(request.headers, true);
    } catch (thrown) {
      refuse(asModeletError(thrown, 'bad_request'));
      return;
    }
    const { type, announced, coding, length } = head;
    if (!announced || type.kind === 'form' || type.kind === 'bytes') {
      next();
      return;
    }
    request._body = true;
    const { most, limit } = this.#limitOf(type.kind, terms);
    const onTooLarge = (): void => refuse(new ModeletError('payload_too_large', `the body is larger than ${limit}`));
    if (coding === 'identity' && length !== null && length > most) {
      onTooLarge();
      return;
    }
    const stop = readBody(
      request,
      { coding, length, most },
      {
        onBody: ({ bytes }) => {
          try {
            give(request, bytes, type);
          } catch (thrown) {
            refuse(asModeletError(thrown, 'bad_request'));
            return;
          }
          next();
        },
        onTooLarge,
        onMalformed: ({ message }) => refuse(unreadable('bad_request', message)),
      },
    );
    response.once('close', stop);
  }

  /** Returns the most bytes of a body, and the name of that limit. Node-RED has none for text, which a flow may shorten. */
  #limitOf(kind: BodyKind, { maxBytes }: ReadTerms): { readonly most: number; readonly limit: string } {
    if (kind === 'json') return { most: this.#jsonLimit.bytes, limit: this.#jsonLimit.name };
    return { most: kind === 'msgpack' ? maxBytes : Number.POSITIVE_INFINITY, limit: 'the runtime takes' };
  }

  /** Answers an error of the parsers that read forms and bytes. Node-RED answers those of what stands in front. */
  #failed(thrown: unknown, request: HttpRequest, response: HttpResponse, next: NextFunction): void {
    // No answer is needed if the client has gone before the whole body was there.
    const isGone = request.destroyed && !request.complete;
    const code = !isGone && !response.headersSent && this.#arrived.has(request) ? codeOf(thrown, request) : undefined;
    if (code === undefined) next(thrown);
    else if (code === 'payload_too_large')
      this.#refuse(new ModeletError(code, `the body is larger than ${this.#jsonLimit.name}`), request, response);
    else this.#refuse(unreadable(code, asError(thrown).message), request, response);
  }

  #refuse(error: ModeletError, request: HttpRequest, response: HttpResponse): void {
    this.#expected.get(request)?.countRefused(error);
    answerError(request.headers, response, error);
  }
}

/** Puts a handler into an Express stack, as a layer like the present layer. */
function insert(stack: Layer[], at: number, handle: RequestHandler | ErrorRequestHandler): void {
  const like = stack[at] ?? (stack.at(-1) as Layer);
  stack.splice(at, 0, Object.assign(Object.create(Object.getPrototypeOf(like)), like, { handle, name: READER }));
}

/**
 * Gives the request the value of its body. The pipeline decodes msgpack and JSON under other names, and refuses bytes that
 * should be text, but not of a type that no stage takes: that is another error.
 * @throws ModeletError `bad_request` for a body that is not JSON
 */
function give(request: HttpRequest, body: Buffer, type: BodyType): void {
  const { kind } = type;
  if (kind === 'json') {
    // JSON parsers make an object of an empty body, although it is not JSON.
    request.body = body.length === 0 ? {} : parseJsonValue(decodeText(body, type));
    givenBodies.set(request, request.body);
    return;
  }
  request.body = kind === 'msgpack' && body.length > 0 ? body : (exactText(body, type) ?? body);
  if (kind === 'text' && request.body === body) notTexts.add(request);
}

/** Returns the code for an error of a parser; undefined if the error is not about the body. */
function codeOf(thrown: unknown, { headers }: HttpRequest): ErrorCode | undefined {
  const { status } = thrown as { readonly status?: number };
  if (status !== undefined) return CODES[status];
  // The parser of forms with files throws plain errors for a form that is cut off or does not match its boundary.
  return /^\s*multipart\//i.test(String(headers['content-type'])) ? 'bad_request' : undefined;
}

function unreadable(code: ErrorCode, why: string): ModeletError {
  return new ModeletError(code, `the body cannot be read: ${why}`);
}

/**
 * Checks the media type of a message's body and writes the decoded body to the payload. Does so only if the payload is
 * the body that an HTTP-in node provided or that this file has decoded; leaves any other message unchanged.
 * @throws ModeletError `unsupported_media`, `bad_request`, `payload_too_large`
 */
export function readMessageBody(msg: PipelineMessage, terms: BodyTerms): void {
  const { payload } = msg;
  const request = requestOf(msg);
  if (!request) return;
  const wasDecoded = givenBodies.has(request);
  const { 'content-type': contentType, 'content-encoding': contentEncoding } = request.headers;
  if (wasDecoded && payload === request.body) {
    checkMediaType(contentType, terms.mediaTypes);
    return;
  }
  const given = wasDecoded ? givenBodies.get(request) : request.body;
  if (!isSame(payload, given)) return;
  const value = decodeBody({ contentType, contentEncoding, given: payload }, terms);
  if (notTexts.has(request) && terms.mediaTypes !== null) throw notText();
  if (value === payload) return;
  msg.payload = value;
  if (wasDecoded) return;
  givenBodies.set(request, given);
  request.body = value;
}

/** Returns the request of a message if it has a body. A part that a split made is not a body, even if it equals it. */
function requestOf({ req, parts }: PipelineMessage): HttpRequest | null {
  const request = req instanceof IncomingMessage && parts === undefined ? (req as HttpRequest) : null;
  return request?.body === undefined ? null : request;
}

/** Whether the payload is the provided body. A message on a second wire has a copy of the body. */
function isSame(payload: unknown, given: unknown): boolean {
  return payload === given || (Buffer.isBuffer(payload) && Buffer.isBuffer(given) && payload.equals(given));
}

/**
 * Checks the timeout header and decodes the body of a message that enters a route.
 * @param first settings of the route's first stage
 * @throws ModeletError `unsupported_media`, `bad_request`, `payload_too_large`
 */
export function readRequest(msg: PipelineMessage, trace: ModeletTrace, first: StageConfig, maxBytes: number): void {
  checkTimeout(msg);
  // Only the first stage checks the media type; later ones accept what it let pass.
  const isFirst = trace.stages.length === 0;
  if (!isFirst || !IS_PAYLOAD.test(first.input)) return;
  readMessageBody(msg, { mediaTypes: first.mediaTypes, maxBytes });
  if (first.maxRows > 0) refuseRows(msg);
}

/** As one item, the rows of a body would be another input. @throws ModeletError `unsupported_media` */
function refuseRows(msg: PipelineMessage): void {
  const { payload } = msg;
  const request = requestOf(msg);
  if (!request || payload !== request.body) return;
  const format = rowFormatOf(request.headers['content-type']);
  if (!Array.isArray(payload) && (format === null || format === 'json' || format === 'msgpack')) return;
  throw new ModeletError('unsupported_media', 'only a compiled endpoint takes the rows of a body, and this one is not');
}
