/**
 * Writes results in parts to HTTP clients. If a stage, or its collector, leads directly to an HTTP response or a stream
 * response, the pipeline itself writes the parts as at a compiled endpoint. The messages reach the node all the same, and
 * it must not write any more. If other nodes lie between, a stream response writes the messages that reach it.
 */
import type { AnswerSpec, StreamSpec } from '../../core/endpoints.ts';
import { asModeletError, isErrorCode } from '../../core/errors.ts';
import type { PartsExit } from '../../flow/http/http-ways.ts';
import { errorBody } from '../../http/client-text.ts';
import { enterRequest } from '../../http/request-head.ts';
import { type PreparedAnswer, prepareAnswer } from '../../http/served-endpoint.ts';
import { chatForm, chatRequest } from '../../http/streaming/chat-form.ts';
import { ResultStream, type StreamedAnswer, whenRead } from '../../http/streaming/result-stream.ts';
import { formOf, streamForm } from '../../http/streaming/stream-form.ts';
import { encodePayload } from '../../wire/codec/codec.ts';
import { answerWithResult, behindParts, saysErrors } from '../request/direct-answers.ts';
import {
  caughtError,
  type Done,
  type ErrorInfo,
  type PipelineMessage,
  stripConnectionHeaders,
} from '../request/messages.ts';
import type { HttpResponse } from './http-types.ts';

/** A stream to an HTTP client. */
interface Streamed {
  readonly stream: ResultStream;
  /** Whether the pipeline writes it, or a stream response node. */
  readonly by: 'pipeline' | 'node';
  /** Number of parts that a node has written. */
  written: number;
}

const streams: WeakMap<HttpResponse, Streamed> = new WeakMap();

/** Status and headers of a node that sets none. */
const AS_THE_MESSAGE_SAYS: AnswerSpec = { statusCode: null, headers: {} };

/**
 * Returns the stream to a message's client; null if no client waits.
 * @param exit the node that would write the answer
 * @param maxBytes the longest answer that may be gathered
 */
export function streamTo(
  msg: PipelineMessage,
  requestId: string,
  exit: PartsExit,
  maxBytes: number,
): ResultStream | null {
  const response = msg.res?._res;
  if (!isOpen(response)) return null;
  if (exit.kind === 'stream')
    return begin(msg, response, 'pipeline', streamOf(exit.stream, msg, requestId, maxBytes)).stream;
  const accept = msg.req?.headers?.['accept'];
  const answer = preparedFor(msg, exit);
  const form = streamForm(typeof accept === 'string' ? accept : undefined, answer.contentType?.bytes ?? null);
  return begin(msg, response, 'pipeline', { requestId, answer, form, heartbeatMs: 0 }).stream;
}

/** Calls `taken` when a message's client has read what was written to it, or is gone; at once if no client waits. */
export function whenClientRead({ res }: PipelineMessage, taken: () => void): void {
  if (res?._res) whenRead(res._res, taken);
  else taken();
}

/** Whether a stream response has ended the answer to a message's client, so that further parts are of no use. */
export function isStreamOver({ res }: PipelineMessage): boolean {
  const streamed = res?._res && streams.get(res._res);
  return streamed?.by === 'node' && streamed.stream.hasEnded;
}

/**
 * Writes a message that has reached a stream response.
 * @param maxBytes the largest part, and the longest answer that may be gathered
 * @param done called when the client has read the message, or is gone
 */
export function writeMessage(msg: PipelineMessage, spec: StreamSpec, maxBytes: number, done: Done): void {
  const response = msg.res?._res;
  if (!response) {
    done(new Error('no HTTP client waits: the message has no msg.res'));
    return;
  }
  const requestId = enterRequest(msg.req?.headers, response);
  if (msg.error) {
    behindParts(response, () => {
      fail(msg, response, errorOf(msg, requestId));
      whenRead(response, done);
    });
    return;
  }
  let streamed = streams.get(response);
  if (!streamed && isOpen(response)) streamed = begin(msg, response, 'node', streamOf(spec, msg, requestId, maxBytes));
  try {
    if (streamed?.by === 'node') write(streamed, msg, maxBytes);
  } catch (thrown) {
    const error = asModeletError(thrown, 'modelet_failed');
    fail({ ...msg, statusCode: error.statusCode }, response, errorBody(error, requestId));
    done(error);
    return;
  }
  whenRead(response, done);
}

/** Writes a part or the end, as `msg.parts` and `msg.complete` say. A message that has neither is a whole result. */
function write(streamed: Streamed, { payload, parts, complete }: PipelineMessage, maxBytes: number): void {
  const { stream } = streamed;
  const value = encodePayload(payload ?? null, { blame: 'modelet_failed', maxBytes });
  const { index, count } = (parts ?? {}) as { readonly index?: unknown; readonly count?: unknown };
  if (complete === true || typeof index !== 'number') {
    stream.end(value);
    return;
  }
  stream.part(value);
  streamed.written += 1;
  if (typeof count === 'number' && streamed.written >= count)
    stream.end(encodePayload(null, { blame: 'modelet_failed', maxBytes }));
}

/** Says an error in the stream if that has begun. Otherwise the error is the answer. */
function fail(msg: PipelineMessage, response: HttpResponse, body: object): void {
  const stream = streams.get(response)?.stream;
  if (stream?.hasBegun) {
    stream.fail(body);
    return;
  }
  try {
    answerWithResult({ ...msg, statusCode: msg.statusCode ?? 500 }, body, AS_THE_MESSAGE_SAYS);
  } catch {
    // A flow may have written a status or headers that HTTP cannot carry.
    answerWithResult({ ...msg, statusCode: 500, headers: {} }, body, AS_THE_MESSAGE_SAYS);
  }
}

/** Returns the body for an error that a collector, a Catch node or another node has written to a message. */
function errorOf(msg: PipelineMessage, requestId: string): object {
  const { code, message, stage, details }: Partial<ErrorInfo> = caughtError(msg) ?? msg.error ?? {};
  const known = isErrorCode(code) ? code : 'modelet_failed';
  const error = { code: known, message: String(message ?? msg.error), stage, details };
  return errorBody(error, msg.modelet?.requestId ?? requestId);
}

function streamOf(spec: StreamSpec, msg: PipelineMessage, requestId: string, maxBytes: number): StreamedAnswer {
  const { body } = (msg.req ?? {}) as { readonly body?: unknown };
  const answer = preparedFor(msg, AS_THE_MESSAGE_SAYS);
  return {
    requestId,
    // The format says the type. A type in the message may be that of an answer that an `http request` node got.
    answer: spec.format === 'raw' ? answer : { ...answer, contentType: null },
    form: formOf(spec, () => chatForm(chatRequest(body, requestId), maxBytes)),
    heartbeatMs: spec.heartbeatMs,
  };
}

function begin(msg: PipelineMessage, response: HttpResponse, by: Streamed['by'], answer: StreamedAnswer): Streamed {
  const stream = new ResultStream(response, { ...answer, onBegun: () => mute(response) });
  const streamed: Streamed = { stream, by, written: 0 };
  streams.set(response, streamed);
  saysErrors(msg, stream);
  return streamed;
}

function preparedFor(msg: PipelineMessage, { statusCode, headers }: AnswerSpec): PreparedAnswer {
  const own = { ...msg };
  stripConnectionHeaders(own);
  return prepareAnswer({
    statusCode: statusCode ?? msg.statusCode ?? null,
    headers: { ...own.headers, ...headers },
  });
}

function isOpen(response: HttpResponse | undefined): response is HttpResponse {
  const { writeHead } = (response ?? {}) as { readonly writeHead?: unknown };
  return typeof writeHead === 'function' && response?.headersSent === false && !response.destroyed;
}

/** The methods of a response that an HTTP response node calls. */
const CALLED = ['set', 'cookie', 'clearCookie', 'status', 'send', 'json', 'jsonp'] as const;

function mute(response: HttpResponse): void {
  for (const method of CALLED) Object.assign(response, { [method]: () => response });
}
