/**
 * Headers of an answer that an `http request` node got are left in `msg.headers`, and an HTTP response node sends them
 * on. Some are about that connection and the body as it was there: with another body they break the answer.
 */
import type { PipelineMessage } from '../request/messages.ts';

/** `http request` marks with this the headers that it has left. */
const MARK = 'x-node-red-request-node';

const OF_THE_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'content-encoding',
  MARK,
]);

/** Those that users set stay: without the mark nothing is touched. */
export function stripConnectionHeaders(msg: PipelineMessage): void {
  const { headers } = msg;
  if (headers === null || typeof headers !== 'object' || !Object.hasOwn(headers, MARK)) return;
  const named = String(headers['connection'] ?? '').split(',');
  const stripped = new Set([...OF_THE_CONNECTION, ...named.map((name) => name.trim().toLowerCase())]);
  msg.headers = Object.fromEntries(Object.entries(headers).filter(([name]) => !stripped.has(name.toLowerCase())));
}
