/** What a message says of its request: how long it may take, and how urgent it is. */
import type { RuntimeConfig } from '../../config/compile.ts';
import { ModeletError } from '../../core/errors.ts';
import type { PipelineMessage } from './messages.ts';

export type TimeLimits = Pick<RuntimeConfig, 'timeoutMs' | 'flowTimeoutMs'>;

const LARGEST_PRIORITY = 2 ** 31 - 1;

/** A positive number, as an HTTP header. */
const POSITIVE = /^(?=.*[1-9])\d+(?:\.\d+)?$/;

/** In ms; 0: no limit. `msg.timeout`, else the header `timeout` of an HTTP request, can only shorten it. */
export function timeoutOf(msg: PipelineMessage, { timeoutMs, flowTimeoutMs }: TimeLimits): number {
  const limit = msg.res ? timeoutMs : flowTimeoutMs;
  const own = numberIn(msg['timeout'] ?? timeoutHeader(msg));
  if (!(own > 0)) return limit;
  return limit === 0 ? own : Math.min(limit, own);
}

/** @throws ModeletError `bad_request` for a header `timeout` that is no positive number and nothing else decides. */
export function checkTimeout(msg: PipelineMessage): void {
  const header = timeoutHeader(msg);
  if (header === undefined || msg['timeout'] !== undefined) return;
  if (typeof header === 'string' && POSITIVE.test(header)) return;
  throw new ModeletError('bad_request', 'the header timeout must be a positive number, of milliseconds');
}

/** Of a request that a client waits for. */
function timeoutHeader({ req, res }: PipelineMessage): string | string[] | undefined {
  return res ? req?.headers?.['timeout'] : undefined;
}

export function priorityOf(msg: PipelineMessage): number {
  const priority = numberIn(msg['priority']);
  if (!Number.isFinite(priority)) return 0;
  return Math.trunc(Math.min(LARGEST_PRIORITY, Math.max(-LARGEST_PRIORITY, priority)));
}

/** NaN for what is neither a number nor the text of one. */
export function numberIn(property: unknown): number {
  return typeof property === 'number' || typeof property === 'string' ? Number(property) : Number.NaN;
}
