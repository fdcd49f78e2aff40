/** Reads a request's timeout and priority from its message. */
import type { RuntimeConfig } from '../../config/compile.ts';
import { parseTimeout } from '../../endpoint/request-head.ts';
import type { PipelineMessage } from './messages.ts';

export type TimeLimits = Pick<RuntimeConfig, 'timeoutMs' | 'flowTimeoutMs'>;

const LARGEST_PRIORITY = 2 ** 31 - 1;

/**
 * Returns the time limit in ms; 0: no limit. `msg.timeout`, else the header `timeout` of an HTTP request, can only
 * shorten the runtime's limit.
 */
export function timeoutOf(msg: PipelineMessage, { timeoutMs, flowTimeoutMs }: TimeLimits): number {
  const limit = msg.res ? timeoutMs : flowTimeoutMs;
  const own = numberIn(msg['timeout'] ?? timeoutHeader(msg));
  if (!(own > 0)) return limit;
  return limit === 0 ? own : Math.min(limit, own);
}

/** @throws ModeletError `bad_request` if `msg.timeout` is not set and the header `timeout` is not a positive number */
export function checkTimeout(msg: PipelineMessage): void {
  const header = timeoutHeader(msg);
  if (msg['timeout'] === undefined) parseTimeout(header);
}

/** Returns the header `timeout`, or undefined if no HTTP client waits for the request. */
function timeoutHeader({ req, res }: PipelineMessage): string | string[] | undefined {
  return res ? req?.headers?.['timeout'] : undefined;
}

export function priorityOf(msg: PipelineMessage): number {
  const priority = numberIn(msg['priority']);
  if (!Number.isFinite(priority)) return 0;
  return Math.trunc(Math.min(LARGEST_PRIORITY, Math.max(-LARGEST_PRIORITY, priority)));
}

/** Returns a number or a numeric string as a number; NaN for any other value. */
export function numberIn(property: unknown): number {
  return typeof property === 'number' || typeof property === 'string' ? Number(property) : Number.NaN;
}
