/**
 * Reads the bodies of requests that reach a pipeline through a flow, so that each arrives exactly or gets a coded error.
 * Node-RED's own parsers would change some bodies in silence, and answer others with a bare 500. The reader stands in
 * front of the parsers of each HTTP-in node, behind its authentication and middleware, as Node-RED's own capture of raw
 * bodies does: it marks a body as read, and the parsers stand aside. Forms and plain bytes stay theirs.
 */
import type { IncomingMessage } from 'node:http';
import type { NodeAPI } from 'node-red';
import { type HttpSettings, jsonLimit } from '../../../config/http/http-settings.ts';
import { asError, asModeletError, type ErrorCode, ModeletError } from '../../../core/errors.ts';
import { decodeText, exactText, readBody } from '../../../endpoint/body.ts';
import { type BodyKind, type BodyType, type RequestHead, readHead } from '../../../endpoint/request-head.ts';
import { parseJsonValue } from '../../../wire/codec/json-text.ts';
import type { EntryTerms } from '../../deploy/endpoints.ts';
import { type Layer, layersOf } from '../../deploy/http-facts.ts';
import { answerError } from '../../request/direct-answers.ts';
import type { HttpRequest, HttpResponse } from '../http-types.ts';
import { keepBytes, keepParsed } from './request-body.ts';

type Next = (error?: unknown) => void;
type Handler = (request: HttpRequest, response: HttpResponse, next: Next) => void;
type ErrorHandler = (error: unknown, request: HttpRequest, response: HttpResponse, next: Next) => void;

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
    const read: Handler = (request, response, next) => this.#read(request, response, next);
    const onFailed: ErrorHandler = (error, request, response, next) => this.#failed(error, request, response, next);
    const spare: Handler = (request, _response, next) => {
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

  #read(request: HttpRequest, response: HttpResponse, next: Next): void {
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
      request as unknown as IncomingMessage,
      { coding, length, most },
      {
        onBody: (body) => {
          try {
            give(request, body, type);
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
  #failed(thrown: unknown, request: HttpRequest, response: HttpResponse, next: Next): void {
    // Nobody waits for an answer if the client has gone before the whole body was there.
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

/** Puts a handler into an Express stack, as a layer like the one that is there. */
function insert(stack: Layer[], at: number, handle: Handler | ErrorHandler): void {
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
    keepParsed(request);
    return;
  }
  request.body = kind === 'msgpack' && body.length > 0 ? body : (exactText(body, type) ?? body);
  if (kind === 'text' && request.body === body) keepBytes(request);
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
