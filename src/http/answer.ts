/**
 * Makes the body of an HTTP answer from a value, as Node-RED's HTTP response node and Express make it, and writes the
 * answer in one go. JSON that a worker has encoded is the body as it is.
 */
import type { ServerResponse } from 'node:http';
import { asError, ModeletError } from '../core/errors.ts';
import type { ChunkedBytes, Payload } from '../core/model.ts';
import { asBuffer, CODEC, decodePayload } from '../wire/codec/codec.ts';
import { type AnswerForm, MSGPACK_TYPE, REQUEST_ID } from './request-head.ts';
import type { PreparedAnswer } from './served-endpoint.ts';
import { jsonable } from './values/conversion.ts';
import { encodeMsgpack } from './values/msgpack.ts';

export type WrittenForm = Exclude<AnswerForm, 'usual'>;

export interface AnswerBody {
  readonly contentType: string;
  readonly body: string | Buffer;
  /** Whether the client must not guess another type. */
  readonly nosniff?: boolean;
  /** Memory of the body, to be freed when it has been sent. */
  readonly memory?: ChunkedBytes | undefined;
}

/** Types that an answer has if its headers set none. */
export const JSON_UTF8 = 'application/json; charset=utf-8';
const HTML_UTF8 = 'text/html; charset=utf-8';
const BYTES = 'application/octet-stream';

/** The last byte of JSON text that begins with a byte. */
const CLOSING: ReadonlyMap<number | undefined, number> = new Map([
  [0x7b, 0x7d],
  [0x5b, 0x5d],
]);

/**
 * Encodes a value in the given form.
 * @throws ModeletError `modelet_failed` for a value that msgpack cannot hold; Error for a value that JSON cannot hold.
 */
export function answerBody(form: WrittenForm, value: unknown): AnswerBody {
  if (form === 'msgpack') return { contentType: MSGPACK_TYPE, body: encodeMsgpack(value) };
  if (typeof value === 'function' || typeof value === 'symbol')
    throw new TypeError(`a ${typeof value} has no JSON form`);
  return { contentType: JSON_UTF8, body: JSON.stringify(jsonable(value)) ?? 'null' };
}

/**
 * Makes the body of an answer with a value.
 * @param typed whether the answer's headers set a Content-Type; the value is then written as it is
 * @throws ModeletError `modelet_failed` for a value that the form cannot hold
 */
export function bodyOfValue(value: unknown, form: AnswerForm, typed: boolean): AnswerBody {
  if (Buffer.isBuffer(value)) return { contentType: BYTES, body: value };
  const isText = typeof value === 'string' || typeof value === 'number';
  if (isText && (typed || form === 'usual')) return { contentType: HTML_UTF8, body: String(value) };
  const written = form === 'usual' || typed ? 'json' : form;
  try {
    const { contentType, body } = answerBody(written, value);
    return { contentType, body, nosniff: written === 'json' && typeof value === 'object' };
  } catch (thrown) {
    throw unwritable(thrown);
  }
}

/**
 * The same for a value that is still encoded.
 * @throws ModeletError `modelet_failed`; `protocol_error` for bytes that do not match their codec
 */
export function bodyOfPayload(payload: Payload, form: AnswerForm, typed: boolean): AnswerBody {
  const { codec, chunks: memory } = payload;
  const lent = memory?.lent;
  const bytes = lent?.length === 1 ? (lent[0] as Uint8Array) : payload.bytes;
  // Text that ends otherwise is cut off. The decoder says so.
  const isWhole = codec === CODEC.json && bytes.at(-1) === CLOSING.get(bytes[0]);
  if (isWhole && bytes.length > 1 && (form !== 'msgpack' || typed))
    return { contentType: JSON_UTF8, body: asBuffer(bytes), nosniff: true, memory };
  if (codec === CODEC.bytes) return { contentType: BYTES, body: asBuffer(bytes), memory };
  return bodyOfValue(decodePayload(payload), form, typed);
}

export function unwritable(thrown: unknown): ModeletError {
  if (thrown instanceof ModeletError) return thrown;
  return new ModeletError('modelet_failed', `the answer cannot be written as JSON: ${asError(thrown).message}`);
}

/**
 * Bodies up to this size go out as one string with the headers, in one system call. Larger ones stay bytes, which are
 * not copied.
 */
const SMALL = 16 * 1024;

/** The libraries of OpenAI repeat a request after every status of 500 and more, unless this header says `false`. */
export const SHOULD_RETRY = 'x-should-retry';

const EMPTY_ANSWER = new Set([204, 304]);
const RESET_CONTENT = 205;

export interface AnswerHead {
  readonly status: number;
  readonly requestId: string;
  readonly answer: PreparedAnswer;
  readonly retryAfterSeconds?: number | undefined;
  /** Whether the same request would fail again. */
  readonly isLasting?: boolean;
}

/** Writes status, headers and body. No effect if the client has gone. Never throws. */
export function writeAnswer(response: ServerResponse, head: AnswerHead, content: AnswerBody): void {
  if (response.headersSent || response.destroyed) return;
  const { status, answer } = head;
  const headers = headersOf(head);
  if (EMPTY_ANSWER.has(status)) {
    response.writeHead(status, headers).end();
    return;
  }
  const { body, contentType, nosniff } = content;
  const isText = typeof body === 'string' || nosniff === true;
  const typed = answer.contentType?.[isText ? 'text' : 'bytes'];
  if (nosniff && typed === undefined && !answer.sets.has('x-content-type-options')) {
    headers.push('X-Content-Type-Options', 'nosniff');
  }
  if (status === RESET_CONTENT) {
    response.writeHead(status, [...headers, 'Content-Type', typed ?? contentType, 'Content-Length', '0']).end();
    return;
  }
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  headers.push('Content-Type', typed ?? contentType, 'Content-Length', String(bytes.byteLength));
  response.writeHead(status, headers);
  if (bytes.byteLength <= SMALL) response.end(bytes.toString('latin1'), 'latin1');
  else response.end(ownBytes(bytes));
  if (content.memory) freeWhenSent(content.memory, response);
}

function freeWhenSent(memory: ChunkedBytes, response: ServerResponse): void {
  // Middleware that has replaced a method, for example to cache answers, may keep the body.
  if (Object.hasOwn(response, 'write') || Object.hasOwn(response, 'end')) return;
  response.once('finish', () => memory.free());
}

/** Returns the headers that do not depend on the body, names and values in turn. */
export function headersOf({ requestId, answer, retryAfterSeconds, isLasting }: AnswerHead): string[] {
  const headers = answer.sets.has('x-request-id') ? [] : [REQUEST_ID, requestId];
  headers.push(...answer.headers);
  if (retryAfterSeconds !== undefined && !answer.sets.has('retry-after')) {
    headers.push('Retry-After', String(retryAfterSeconds));
  }
  if (isLasting && !answer.sets.has(SHOULD_RETRY)) headers.push(SHOULD_RETRY, 'false');
  return headers;
}

/** Copies a part of a large frame: a client that reads slowly must not keep the results of others in memory. */
function ownBytes(bytes: Buffer): Buffer {
  return bytes.buffer.byteLength > 2 * bytes.byteLength ? Buffer.from(bytes) : bytes;
}
