/**
 * Answers in the form that a caller wants, whoever gives them: an HTTP response node, one behind a Catch node, or a
 * pipeline past the flow. All go through a few methods of the response, which are its own for this one request. In the
 * flow results and errors stay the values that they are.
 */
import { asError, ModeletError } from '../../core/errors.ts';
import { type AnswerForm, answerForm } from '../../endpoint/accept.ts';
import { type AnswerBody, answerBody } from '../../endpoint/answer.ts';
import { jsonable } from '../../endpoint/jsonable.ts';
import { kindOfHeader } from '../../endpoint/media-type.ts';
import { errorBody, type PipelineMessage } from '../request/messages.ts';
import { asksOnly, type HttpRequest, type HttpResponse } from './http-types.ts';

type WrittenForm = Exclude<AnswerForm, 'usual'>;

/** Types of values that Node-RED or Express cannot send, and throw where they are to. */
const UNSENDABLE: ReadonlySet<string> = new Set(['boolean', 'bigint', 'function', 'symbol']);

/** Results of pipelines that are text and look like a number; see `sentValue`. */
const textsLikeNumbers: WeakMap<HttpResponse, string> = new WeakMap();

/** For a request that leads to a pipeline, before any node has it. */
export function prepareAnswer(request: HttpRequest, response: HttpResponse): void {
  if (asksOnly(request)) response.vary('Accept');
  const { accept, 'content-type': contentType } = request.headers;
  const form = answerForm(typeof accept === 'string' ? accept : undefined, kindOfHeader(contentType));
  answerAs(form, response);
}

function answerAs(form: AnswerForm, response: HttpResponse): void {
  const { json, jsonp, send, get } = response;
  // Who has set a type has made its body itself.
  const isTyped = (): boolean => response.getHeader('Content-Type') !== undefined;
  const written = form === 'usual' ? 'json' : form;
  const shape = (value: unknown): HttpResponse => {
    const { contentType, body } = shaped(written, value, response);
    response.set('Content-Type', contentType);
    return send.call(response, body);
  };
  const attempt = (answer: () => HttpResponse): HttpResponse => {
    try {
      return answer();
    } catch (thrown) {
      if (response.headersSent) throw thrown;
      return send.call(response, refused(written, thrown, response).body);
    }
  };
  // Text stays text for who has not named a form.
  const isShaped = (body: unknown): boolean =>
    typeof body === 'string' ? form !== 'usual' : UNSENDABLE.has(typeof body);
  response.send = (body) =>
    attempt(() => (isTyped() || !isShaped(body) ? send.call(response, body) : shape(sentValue(body, response))));
  // An HTTP response node counts the bytes of what is no object, and cannot count those of a boolean or a BigInt: it is
  // told that this has been done, as `send` does it.
  response.get = (name) => get.call(response, name) ?? (name.toLowerCase() === 'content-length' ? '0' : undefined);
  const asObject = (method: HttpResponse['json']): HttpResponse['json'] => {
    const isSent = (): boolean => form !== 'msgpack' || isTyped();
    return (body) => attempt(() => (isSent() ? method.call(response, jsonable(body)) : shape(body)));
  };
  response.json = asObject(json);
  response.jsonp = asObject(jsonp);
}

function shaped(form: WrittenForm, value: unknown, response: HttpResponse): AnswerBody {
  try {
    return answerBody(form, value);
  } catch (thrown) {
    return refused(form, thrown, response);
  }
}

/** A client must not wait for ever because its answer cannot be written. */
function refused(form: WrittenForm, thrown: unknown, response: HttpResponse): AnswerBody {
  const error = thrown instanceof ModeletError ? thrown : notJson(asError(thrown));
  const { code, message, statusCode } = error;
  const requestId = String(response.getHeader('X-Request-Id') ?? '');
  response.status(statusCode);
  const answer = answerBody(form, errorBody({ code, message, requestId, stage: undefined }));
  response.set('Content-Type', answer.contentType);
  return answer;
}

function notJson({ message }: Error): ModeletError {
  return new ModeletError('modelet_failed', `the answer cannot be written as JSON: ${message}`);
}

/**
 * An HTTP response node makes text of a number before it sends it. What looks like one is one, unless it is a result
 * that was text already.
 */
function sentValue(body: unknown, response: HttpResponse): unknown {
  const isNumber = looksLikeNumber(body) && textsLikeNumbers.get(response) !== body;
  return isNumber ? Number(body) : body;
}

/** Remembers a result that its answer could be taken for something else. */
export function noteResult({ payload, res }: PipelineMessage): void {
  if (typeof payload === 'string' && res?._res && looksLikeNumber(payload)) textsLikeNumbers.set(res._res, payload);
}

function looksLikeNumber(text: unknown): boolean {
  return typeof text === 'string' && text.length < 30 && String(Number(text)) === text;
}
