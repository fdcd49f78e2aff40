/** Writes the answer to an HTTP request in one go. */
import type { ServerResponse } from 'node:http';
import type { AnswerBody } from './answer.ts';
import { REQUEST_ID } from './request-id.ts';
import type { PreparedAnswer } from './served-endpoint.ts';

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
