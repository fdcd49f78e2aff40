/**
 * Decodes the body of an HTTP request at the first pipeline node that its message reaches. HTTP-in nodes parse JSON,
 * but read msgpack as text, which loses bytes. For requests that lead to a pipeline, this file keeps the msgpack bytes.
 */
import { EventEmitter } from 'node:events';
import { IncomingMessage } from 'node:http';
import type { StageConfig } from '../../../config/compile-stage.ts';
import { type BodyTerms, checkMediaType, decodeBody } from '../../../endpoint/body.ts';
import { kindOfHeader } from '../../../endpoint/media-type.ts';
import { checkTimeout } from '../../request/message-fields.ts';
import type { ModeletTrace, PipelineMessage } from '../../request/messages.ts';
import type { HttpRequest } from '../http-types.ts';

/** The bytes of a body as they arrive. */
type KeptBody =
  | { tag: 'whole'; readonly chunks: Buffer[]; bytes: number }
  /** The body is too large; further bytes are dropped. */
  | { tag: 'too large' };

/** Matches the property expression of the payload or a part of it. */
const IS_PAYLOAD = /^payload(?![\w$])/;

const keptBodies: WeakMap<object, KeptBody> = new WeakMap();
/** The body that the HTTP-in node provided, by request, if it is decoded: by this file, or before. */
const givenBodies: WeakMap<object, unknown> = new WeakMap();

/**
 * Keeps the bytes of a msgpack body, for a request that leads to a pipeline. Call before any node receives the request.
 * @param maxBytes size above which the body counts as too large
 */
export function keepBody(request: HttpRequest, maxBytes: number): void {
  const isMsgpack = kindOfHeader(request.headers['content-type']) === 'msgpack';
  if (!isMsgpack || keptBodies.has(request) || request._body) return;
  let body: KeptBody = { tag: 'whole', chunks: [], bytes: 0 };
  keptBodies.set(request, body);
  const keep = (chunk: Buffer): void => {
    if (body.tag === 'too large') return;
    body.bytes += chunk.length;
    if (body.bytes <= maxBytes) {
      body.chunks.push(chunk);
      return;
    }
    body = { tag: 'too large' };
    keptBodies.set(request, body);
    // Node-RED itself would collect the body without a limit. Without listeners, it gets no further bytes.
    (request as unknown as EventEmitter).removeAllListeners('data');
  };
  // The stream's own `on` would start the flow before the body parser listens.
  EventEmitter.prototype.on.call(request as unknown as EventEmitter, 'data', keep);
}

/** Notes that `request.body` is the value that the client sent, so that a text is not taken for JSON once more. */
export function keepParsed(request: HttpRequest): void {
  givenBodies.set(request, request.body);
}

/** Whether a request's msgpack body exceeded its limit. */
export function isTooLarge(request: HttpRequest): boolean {
  return keptBodies.get(request)?.tag === 'too large';
}

/**
 * Checks the media type of a message's body and writes the decoded body to the payload. Does so only if the payload is
 * the body that an HTTP-in node provided or that this file has decoded; leaves any other message unchanged.
 * @throws ModeletError `unsupported_media`, `bad_request`, `payload_too_large`
 */
export function readMessageBody(msg: PipelineMessage, terms: BodyTerms): void {
  const { req, payload } = msg;
  // A part that a split made is not a body, even if it equals the body.
  if (!(req instanceof IncomingMessage) || msg['parts'] !== undefined) return;
  const request = req as unknown as HttpRequest;
  if (request.body === undefined) return;
  const wasDecoded = givenBodies.has(request);
  const contentType = request.headers['content-type'] as string | undefined;
  if (wasDecoded && payload === request.body) {
    checkMediaType(contentType, terms.mediaTypes);
    return;
  }
  const given = wasDecoded ? givenBodies.get(request) : request.body;
  if (!isSame(payload, given)) return;
  const kept = keptBodies.get(request);
  const bytes = kept?.tag === 'whole' ? Buffer.concat(kept.chunks) : kept && null;
  const contentEncoding = request.headers['content-encoding'] as string | undefined;
  const value = decodeBody({ contentType, contentEncoding, given: payload, bytes }, terms);
  if (value === payload) return;
  msg.payload = value;
  if (wasDecoded) return;
  givenBodies.set(request, given);
  request.body = value;
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
  if (isFirst && IS_PAYLOAD.test(first.input)) readMessageBody(msg, { mediaTypes: first.mediaTypes, maxBytes });
}
