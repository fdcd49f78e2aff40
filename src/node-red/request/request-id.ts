/**
 * The id by which people know a request: in `msg.modelet`, errors, logs, and the answer's `X-Request-Id`. A caller
 * may choose it, so it need not be unique.
 */
import { randomBytes } from 'node:crypto';
import { parseTraceparent } from '../../observe/export/traceparent.ts';

/** By lower-case name, as Node.js has them. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** What is needed of an HTTP response. A flow may have put anything in its place. */
export interface AnswerHeaders {
  readonly headersSent: boolean;
  getHeader(name: string): unknown;
  setHeader(name: string, value: string): unknown;
}

const HEADER = 'X-Request-Id';
/** Visible ASCII: what is safe in a header, a log line and a label. */
const VALID = /^[\x21-\x7e]{1,128}$/;

/** Distinguishes the requests of this process from those of an earlier one that a stored message may name. */
export const PROCESS_TAG: string = randomBytes(4).toString('hex');
let lastMade = 0;

/**
 * The id of a request that enters, which its answer bears from now on: the one that the answer bears already, else the
 * caller's own (`X-Request-Id`, else the trace of `traceparent`), else one that is made here.
 */
export function enterRequest(headers: Headers | undefined, answer: AnswerHeaders | undefined): string {
  const canBear = typeof answer?.getHeader === 'function' && typeof answer.setHeader === 'function';
  const borne = canBear ? answer.getHeader(HEADER) : undefined;
  const id =
    valid(borne) ??
    valid(headers?.['x-request-id']) ??
    parseTraceparent(headers?.['traceparent'])?.traceId ??
    makeRequestId();
  if (canBear && borne === undefined && !answer.headersSent) answer.setHeader(HEADER, id);
  return id;
}

function makeRequestId(): string {
  lastMade += 1;
  return `${PROCESS_TAG}-${lastMade.toString(36)}`;
}

function valid(id: unknown): string | undefined {
  return typeof id === 'string' && VALID.test(id) ? id : undefined;
}
