/**
 * Writes each answer in the form that the caller asked for. The answer may come from an HTTP response node, also one
 * behind a Catch node, or directly from a pipeline. All of them call a few methods of the response, which this file
 * replaces for each request. Results and errors in the flow keep their values.
 */
import type { Response } from 'express';
import type { ModeletError } from '../../core/errors.ts';
import { answerBody, SHOULD_RETRY, unwritable, type WrittenForm } from '../../http/answer.ts';
import { errorBody } from '../../http/client-text.ts';
import { type AnswerForm, answerForm, kindOfHeader, REQUEST_ID } from '../../http/request-head.ts';
import { asksBase64, inBase64, isForEmbeddings } from '../../http/streaming/embeddings.ts';
import { jsonable } from '../../http/values/conversion.ts';
import type { PipelineMessage } from '../request/messages.ts';
import type { HttpRequest, HttpResponse } from './http-types.ts';

/** Types of values that Node-RED or Express cannot send: they throw. */
const UNSENDABLE: ReadonlySet<string> = new Set(['boolean', 'bigint', 'function', 'symbol']);

/** Results of pipelines that their text does not tell: texts that look like a number, and -0. By response; see `sentValue`. */
const results: WeakMap<HttpResponse, string | number> = new WeakMap();

/**
 * Sets up the answer form for a request that leads to a pipeline. Call before any node receives the request.
 * @param onUnwritten told why an answer cannot be written
 */
export function setAnswerForm(
  request: HttpRequest,
  response: HttpResponse,
  onUnwritten: (error: ModeletError) => void,
): void {
  if (asksOnly(request)) response.vary('Accept');
  const { accept, 'content-type': contentType } = request.headers;
  const form = answerForm(accept, kindOfHeader(contentType));
  // The body is parsed later.
  const prepared = (value: unknown): unknown =>
    asksBase64(request.body) && isForEmbeddings(request.path) ? inBase64(value) : value;
  answerAs(form, response, prepared, onUnwritten);
}

/** Whether a request is GET or HEAD: it has no body, and caches may keep its answer. */
export function asksOnly({ method }: HttpRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** @param prepared returns a value as the client wants it */
function answerAs(
  form: AnswerForm,
  response: HttpResponse,
  prepared: (value: unknown) => unknown,
  onUnwritten: (error: ModeletError) => void,
): void {
  const { json, jsonp, send, get } = response;
  // If Content-Type is set, the flow has encoded the body.
  const isTyped = (): boolean => response.getHeader('Content-Type') !== undefined;
  const written = form === 'usual' ? 'json' : form;
  const shape = (value: unknown): Response => {
    const { contentType, body } = answerBody(written, value);
    response.set('Content-Type', contentType);
    return send.call(response, body);
  };
  const attempt = (answer: () => Response): Response => {
    try {
      return answer();
    } catch (thrown) {
      if (response.headersSent) throw thrown;
      const error = unwritable(thrown);
      onUnwritten(error);
      return send.call(response, refused(written, error, response));
    }
  };
  // Text stays text if the caller has not asked for a form.
  const isShaped = (body: unknown): boolean =>
    typeof body === 'string' ? form !== 'usual' : UNSENDABLE.has(typeof body);
  response.send = (body) =>
    attempt(() => {
      if (!isShaped(body)) return send.call(response, body);
      if (!isTyped()) return shape(sentValue(body, response));
      return send.call(response, UNSENDABLE.has(typeof body) ? answerBody('json', body).body : body);
    });
  // An HTTP response node counts the bytes of any value that is not an object, and fails for a boolean or a BigInt. A
  // Content-Length makes the node skip this; `send` sets the correct one.
  response.get = (name) => get.call(response, name) ?? (name.toLowerCase() === 'content-length' ? '0' : undefined);
  const asObject = (method: HttpResponse['json']): HttpResponse['json'] => {
    const isSent = (): boolean => form !== 'msgpack' || isTyped();
    return (given) =>
      attempt(() => {
        const body = prepared(given);
        return isSent() ? method.call(response, jsonable(body)) : shape(body);
      });
  };
  response.json = asObject(json);
  response.jsonp = asObject(jsonp);
}

/** Returns an error body for an answer that cannot be written, and sets status and type: a client must never hang. */
function refused(form: WrittenForm, error: ModeletError, response: HttpResponse): string | Buffer {
  const requestId = String(response.getHeader(REQUEST_ID) ?? '');
  const { contentType, body } = answerBody(form, errorBody(error, requestId));
  response.status(error.statusCode);
  response.set(SHOULD_RETRY, 'false');
  response.set('Content-Type', contentType);
  return body;
}

/**
 * Returns the value that the flow meant to send. An HTTP response node turns a number into text before it sends it, so
 * text that looks like a number becomes a number again, unless the pipeline's result was that text.
 */
function sentValue(body: unknown, response: HttpResponse): unknown {
  const result = results.get(response);
  if (result !== undefined && String(result) === body) return result;
  return looksLikeNumber(body) ? Number(body) : body;
}

/** Remembers a result that its answer could mistake for another: a text for a number, and -0 for 0. */
export function noteResult({ payload, res }: PipelineMessage): void {
  if (!res?._res) return;
  if (typeof payload === 'string' ? looksLikeNumber(payload) : Object.is(payload, -0))
    results.set(res._res, payload as string | number);
}

function looksLikeNumber(text: unknown): boolean {
  return typeof text === 'string' && text.length < 30 && String(Number(text)) === text;
}
