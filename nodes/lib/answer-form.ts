/**
 * Answers in the form that a caller wants, whoever gives them: an HTTP response node, one behind a Catch node, or a
 * pipeline past the flow. All go through a few methods of the response, which are its own for this one request. In the
 * flow results and errors stay the values that they are.
 */
import {
  type AnswerBody,
  type AnswerForm,
  answerBody,
  answerForm,
  type MediaKind,
  ModeletError,
  mediaKindOf,
  mediaTypeOf,
} from '../../src/index.ts';
import { asksOnly, type HttpRequest, type HttpResponse } from './http-types.ts';
import { errorBody, type PipelineMessage } from './messages.ts';

/** Results of pipelines that are text and look like a number; see `sentValue`. */
const textsLikeNumbers: WeakMap<HttpResponse, string> = new WeakMap();

/** For a request that leads to a pipeline, before any node has it. */
export function prepareAnswer(request: HttpRequest, response: HttpResponse): void {
  if (asksOnly(request)) response.vary('Accept');
  const { accept, 'content-type': contentType } = request.headers;
  const form = answerForm(typeof accept === 'string' ? accept : undefined, kindOf(contentType));
  if (form !== 'usual') answerAs(form, response);
}

function kindOf(contentType: string | string[] | undefined): MediaKind | null {
  if (typeof contentType !== 'string') return null;
  const type = mediaTypeOf(contentType);
  return type === null ? null : mediaKindOf(type);
}

function answerAs(form: Exclude<AnswerForm, 'usual'>, response: HttpResponse): void {
  const { json, jsonp, send, get } = response;
  // Who has set a type has made its body itself.
  const isTyped = (): boolean => response.getHeader('Content-Type') !== undefined;
  const shape = (value: unknown): HttpResponse => {
    const { contentType, body } = shaped(form, value, response);
    response.set('Content-Type', contentType);
    return send.call(response, body);
  };
  response.send = (body) =>
    isTyped() || !isScalar(body) ? send.call(response, body) : shape(sentValue(body, response));
  // An HTTP response node counts the bytes of what is no object, and cannot count those of a boolean: it is told that
  // this has been done, as `send` does it.
  response.get = (name) => get.call(response, name) ?? (name.toLowerCase() === 'content-length' ? '0' : undefined);
  if (form === 'json') return;
  response.json = (body) => (isTyped() ? json.call(response, body) : shape(body));
  response.jsonp = (body) => (isTyped() ? jsonp.call(response, body) : shape(body));
}

/** A client must not wait for ever because its answer cannot be written. */
function shaped(form: Exclude<AnswerForm, 'usual'>, value: unknown, response: HttpResponse): AnswerBody {
  try {
    return answerBody(form, value);
  } catch (thrown) {
    const error = thrown instanceof ModeletError ? thrown : new ModeletError('modelet_failed', String(thrown));
    const { code, message, statusCode } = error;
    const requestId = String(response.getHeader('X-Request-Id') ?? '');
    response.status(statusCode);
    return answerBody(form, errorBody({ code, message, requestId, stage: undefined }));
  }
}

function isScalar(body: unknown): body is string | boolean {
  return typeof body === 'string' || typeof body === 'boolean';
}

/**
 * An HTTP response node makes text of a number before it sends it. What looks like one is one, unless it is a result
 * that was text already.
 */
function sentValue(body: string | boolean, response: HttpResponse): unknown {
  const isNumber = looksLikeNumber(body) && textsLikeNumbers.get(response) !== body;
  return isNumber ? Number(body) : body;
}

/** Remembers a result that its answer could be taken for something else. */
export function noteResult({ payload, res }: PipelineMessage): void {
  if (typeof payload === 'string' && res?._res && looksLikeNumber(payload)) textsLikeNumbers.set(res._res, payload);
}

function looksLikeNumber(text: unknown): boolean {
  return typeof text === 'string' && text.length < 30 && String(Number(text)) === text && Number.isFinite(Number(text));
}
