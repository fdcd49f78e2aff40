/**
 * Answers an HTTP client with a result in parts where the collector's output leads directly to the HTTP response node. The
 * parts are written as at a compiled endpoint. The messages reach the node all the same, and it must not write any more.
 */
import type { ServerResponse } from 'node:http';
import type { AnswerSpec } from '../../core/model.ts';
import { prepareAnswer } from '../../endpoint/served-endpoint.ts';
import { ResultStream, whenRead } from '../../endpoint/streaming/result-stream.ts';
import type { PipelineMessage } from '../request/messages.ts';
import { stripConnectionHeaders } from './response-headers.ts';

/** Returns the stream to a message's client; null if no client waits. @param answer status and headers of the node */
export function streamTo(msg: PipelineMessage, requestId: string, answer: AnswerSpec): ResultStream | null {
  const response = msg.res?._res as unknown as ServerResponse | undefined;
  if (typeof response?.writeHead !== 'function' || response.headersSent) return null;
  const own = { ...msg };
  stripConnectionHeaders(own);
  const accept = msg.req?.headers?.['accept'];
  return new ResultStream(response, {
    requestId,
    answer: prepareAnswer({
      statusCode: answer.statusCode ?? msg.statusCode ?? null,
      headers: { ...own.headers, ...answer.headers },
    }),
    accept: typeof accept === 'string' ? accept : undefined,
    onBegun: () => mute(response),
  });
}

/** Calls `taken` when a message's client has read what was written to it, or is gone; at once if no client waits. */
export function whenClientRead({ res }: PipelineMessage, taken: () => void): void {
  if (res?._res) whenRead(res._res, taken);
  else taken();
}

/** The methods of a response that an HTTP response node calls. */
const CALLED = ['set', 'cookie', 'clearCookie', 'status', 'send', 'json', 'jsonp'] as const;

function mute(response: ServerResponse): void {
  for (const method of CALLED) Object.assign(response, { [method]: () => response });
}
