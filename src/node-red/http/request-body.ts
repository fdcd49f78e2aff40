/**
 * The body of an HTTP request at the first pipeline node that its message comes to. HTTP-in nodes parse JSON; msgpack
 * they take for text, in which its bytes are lost, so they are kept aside for the requests that lead to a pipeline.
 */
import { EventEmitter } from 'node:events';
import { IncomingMessage } from 'node:http';
import type { StageConfig } from '../../config/compile-stage.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { type BodyTerms, checkMediaType, decodeBody } from '../../endpoint/body.ts';
import { kindOfHeader } from '../../endpoint/media-type.ts';
import type { ModeletTrace, PipelineMessage } from '../request/messages.ts';
import { checkTimeout } from '../request/request-terms.ts';
import type { HttpRequest } from './http-types.ts';

/** The bytes of a body, as they come. */
type KeptBody =
  | { tag: 'whole'; readonly chunks: Buffer[]; bytes: number }
  /** More than may be; what comes is dropped. */
  | { tag: 'too large' };

/** The payload or a part of it. */
const IS_PAYLOAD = /^payload(?![\w$])/;

const keptBodies: WeakMap<object, KeptBody> = new WeakMap();
/** What an HTTP-in node had given of a body that was decoded since. */
const givenBodies: WeakMap<object, unknown> = new WeakMap();

/** For a request that leads to a pipeline, before any node has it. */
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
    // Node-RED itself would gather all of it, however much comes. The request ends as if it had not come.
    (request as unknown as EventEmitter).removeAllListeners('data');
  };
  // Not the stream's own `on`, which would set it flowing before its reader is there.
  EventEmitter.prototype.on.call(request as unknown as EventEmitter, 'data', keep);
}

/** Whether a request's body was more than may be. */
export function isTooLarge(request: HttpRequest): boolean {
  return keptBodies.get(request)?.tag === 'too large';
}

/**
 * Where a message's payload is the body that an HTTP-in node gave, or one that was decoded here: checks its type, and
 * writes to the payload what the body holds. Any other message is left alone.
 * @throws ModeletError `unsupported_media`, `bad_request`, `payload_too_large`
 */
export function readBody(msg: PipelineMessage, terms: BodyTerms): void {
  const { req, payload } = msg;
  // What a split has made of a body is none, also where it looks the same.
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

/** A message that goes along a second wire has a copy. */
function isSame(payload: unknown, given: unknown): boolean {
  return payload === given || (Buffer.isBuffer(payload) && Buffer.isBuffer(given) && payload.equals(given));
}

/**
 * For a message that comes to a stage, with the settings of the first of its route.
 * @throws ModeletError `unsupported_media`, `bad_request`, `payload_too_large`
 */
export function readRequest(msg: PipelineMessage, trace: ModeletTrace, first: StageConfig, maxBytes: number): void {
  checkTimeout(msg);
  // Later stages may well take what the first has let pass.
  const isFirst = trace.stages.length === 0;
  if (isFirst && IS_PAYLOAD.test(first.input)) readBody(msg, { mediaTypes: first.mediaTypes, maxBytes });
}

/** Whether an error is of what has come, before a request is submitted. */
export function isOfRequest(code: ErrorCode): boolean {
  return ['invalid_input', 'bad_request', 'unsupported_media', 'payload_too_large'].includes(code);
}
