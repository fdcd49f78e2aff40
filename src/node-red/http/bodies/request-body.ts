/**
 * Decodes the body of an HTTP request at the first pipeline node that its message reaches: msgpack, and JSON that nothing
 * has parsed yet.
 */
import { IncomingMessage } from 'node:http';
import type { StageConfig } from '../../../config/compile-stage.ts';
import { type BodyTerms, checkMediaType, decodeBody, notText } from '../../../endpoint/body.ts';
import { checkTimeout } from '../../request/message-fields.ts';
import type { ModeletTrace, PipelineMessage } from '../../request/messages.ts';
import type { HttpRequest } from '../http-types.ts';

/** Matches the property expression of the payload or a part of it. */
const IS_PAYLOAD = /^payload(?![\w$])/;

/** The body that the HTTP-in node provided, by request, if it is decoded: by this file, or before. */
const givenBodies: WeakMap<object, unknown> = new WeakMap();
const notTexts: WeakSet<object> = new WeakSet();

/** Notes that `request.body` is the value that the client sent, so that a text is not taken for JSON once more. */
export function keepParsed(request: HttpRequest): void {
  givenBodies.set(request, request.body);
}

/** Notes that `request.body` has the bytes of a body that should be text and is not. A stage refuses them. */
export function keepBytes(request: HttpRequest): void {
  notTexts.add(request);
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
  const contentEncoding = request.headers['content-encoding'] as string | undefined;
  const value = decodeBody({ contentType, contentEncoding, given: payload }, terms);
  if (notTexts.has(request) && terms.mediaTypes !== null) throw notText();
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
