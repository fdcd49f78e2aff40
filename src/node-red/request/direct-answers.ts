/** Answers HTTP clients directly when no flow can do so: a client must never hang. */
import type { AnswerSpec } from '../../core/endpoints.ts';
import { isLasting, type ModeletError } from '../../core/errors.ts';
import { SHOULD_RETRY } from '../../http/answer.ts';
import { errorBody } from '../../http/client-text.ts';
import { enterRequest, type Headers } from '../../http/request-head.ts';
import type { HttpResponse } from '../http/http-types.ts';
import type { PipelineMessage } from './messages.ts';

/** Responses that a flow may have started with the first part of a result. */
const begun: WeakSet<HttpResponse> = new WeakSet();

/** Notes that the flow has a first part of the result, may start the client's response with it, and will get more. */
export function willAnswer(msg: PipelineMessage): void {
  if (msg.res?._res) begun.add(msg.res._res);
}

/** Answers that can say an error after they have begun. */
interface ErrorSayer {
  /** No effect if the answer has not begun, or has ended. */
  fail(body: object): void;
}

const sayers: WeakMap<HttpResponse, ErrorSayer> = new WeakMap();

/** Notes who says an error in the answer to a message's client once that has begun. */
export function saysErrors({ res }: PipelineMessage, sayer: ErrorSayer): void {
  if (res?._res) sayers.set(res._res, sayer);
}

/** Answers an HTTP client with a result that cannot reach its HTTP response node, in the same way as that node. */
export function answerWithResult(msg: PipelineMessage, payload: unknown, answer: AnswerSpec): void {
  const response = msg.res?._res;
  if (!response || response.headersSent || response.destroyed) return;
  for (const [name, value] of Object.entries({ ...msg.headers, ...answer.headers })) response.set(name, value);
  response.status(answer.statusCode ?? msg.statusCode ?? 200);
  if (payload !== null && typeof payload === 'object' && !Buffer.isBuffer(payload)) response.json(payload);
  else response.send(typeof payload === 'number' ? String(payload) : payload);
}

/**
 * Answers an HTTP client with an error if its message can no longer reach an HTTP response: a client must never hang.
 * Ends a response that the flow has already started.
 */
export function answerDirectly(msg: PipelineMessage, error: ModeletError, requestId: string): void {
  const response = msg.res?._res;
  if (!response || response.destroyed) return;
  const answer = (): void => {
    if (response.headersSent) {
      sayers.get(response)?.fail(errorBody(error, requestId));
      if (begun.has(response) && !response.writableEnded) response.end();
      return;
    }
    writeAnswer(response, error, requestId);
  };
  // A later write by the flow is lost, and must not crash Node-RED.
  if (begun.has(response)) response.on('error', () => {});
  behindParts(response, answer);
}

/** Runs `act` when the parts of a result that are in progress have reached their response; at once if all have. */
export function behindParts(response: HttpResponse, act: () => void): void {
  if (begun.has(response)) inTurns(LONGEST_WAY, act);
  else act();
}

/**
 * Turns of the event loop in which Node-RED delivers a part: one for each node on its way, and two for function nodes. An
 * error has another way, which is often shorter.
 */
const LONGEST_WAY = 20;

function inTurns(turns: number, act: () => void): void {
  if (turns === 0) act();
  else setImmediate(() => inTurns(turns - 1, act));
}

/** Answers a request that has not reached a flow. */
export function answerError(headers: Headers, response: HttpResponse, error: ModeletError): void {
  writeAnswer(response, error, enterRequest(headers, response));
}

function writeAnswer(response: HttpResponse, error: ModeletError, requestId: string): void {
  response.status(error.statusCode);
  if (error.retryAfterSeconds !== undefined) response.set('Retry-After', String(error.retryAfterSeconds));
  if (isLasting(error.code)) response.set(SHOULD_RETRY, 'false');
  response.json(errorBody(error, requestId));
}
