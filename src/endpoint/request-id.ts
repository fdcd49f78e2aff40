/**
 * The request id that users see: in `msg.modelet`, errors, logs, and the answer's `X-Request-Id`. A caller may choose
 * the id, so it need not be unique.
 */
import { randomBytes } from 'node:crypto';
import { parseTraceparent } from '../observe/export/tracing.ts';

/** Headers by lower-case name, as in Node.js. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** The used part of an HTTP response. A flow may have replaced the response with any other value. */
export interface AnswerHeaders {
  readonly headersSent: boolean;
  getHeader(name: string): unknown;
  setHeader(name: string, value: string): unknown;
}

/** The header of an answer that bears its request's id. */
export const REQUEST_ID = 'X-Request-Id';
/** Visible ASCII, which is safe in a header, a log line and a label. */
const VALID = /^[\x21-\x7e]{1,128}$/;

/** Tag of this process. Stored messages may carry the tag of an earlier process. */
export const PROCESS_TAG: string = randomBytes(4).toString('hex');
let lastMade = 0;

/**
 * Returns the id of a request that enters, and sets it as the answer's `X-Request-Id`. The id is the one already set on
 * the answer, else the caller's (`X-Request-Id`, else the trace id of `traceparent`), else a new id.
 */
export function enterRequest(headers: Headers | undefined, answer: AnswerHeaders | undefined): string {
  const canBear = typeof answer?.getHeader === 'function' && typeof answer.setHeader === 'function';
  const borne = canBear ? answer.getHeader(REQUEST_ID) : undefined;
  const id = requestIdOf(headers, borne);
  if (canBear && borne === undefined && !answer.headersSent) answer.setHeader(REQUEST_ID, id);
  return id;
}

/** Returns the id of a request, which its answer must bear. @param borne the id already set on the answer */
export function requestIdOf(headers: Headers | undefined, borne: unknown): string {
  return valid(borne) ?? valid(headers?.['x-request-id']) ?? traceIdOf(headers?.['traceparent']) ?? makeRequestId();
}

function traceIdOf(traceparent: unknown): string | undefined {
  return traceparent === undefined ? undefined : parseTraceparent(traceparent)?.traceId;
}

function makeRequestId(): string {
  lastMade += 1;
  return `${PROCESS_TAG}-${lastMade.toString(36)}`;
}

function valid(id: unknown): string | undefined {
  return typeof id === 'string' && VALID.test(id) ? id : undefined;
}
