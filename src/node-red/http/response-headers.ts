/**
 * Removes connection headers from a message. An `http request` node leaves the headers of its answer in `msg.headers`,
 * and an HTTP response node sends them on. Some describe that connection and that body, and break an answer with
 * another body.
 */
import type { PipelineMessage } from '../request/messages.ts';

/** Header with which an `http request` node marks the headers that it leaves. */
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

/** Removes connection headers if `http request` left them. Headers without the mark are the user's own and stay. */
export function stripConnectionHeaders(msg: PipelineMessage): void {
  const { headers } = msg;
  if (headers === null || typeof headers !== 'object' || !Object.hasOwn(headers, MARK)) return;
  const named = String(headers['connection'] ?? '').split(',');
  const stripped = new Set([...OF_THE_CONNECTION, ...named.map((name) => name.trim().toLowerCase())]);
  msg.headers = Object.fromEntries(Object.entries(headers).filter(([name]) => !stripped.has(name.toLowerCase())));
}
