/** What a message says of its request: how long it may take, and how urgent it is. */
import type { RuntimeConfig } from '../../src/index.ts';
import type { PipelineMessage } from './messages.ts';

export type TimeLimits = Pick<RuntimeConfig, 'timeoutMs' | 'flowTimeoutMs'>;

const LARGEST_PRIORITY = 2 ** 31 - 1;

/** In ms; 0: no limit. `msg.timeout` can only shorten it. */
export function timeoutOf(msg: PipelineMessage, { timeoutMs, flowTimeoutMs }: TimeLimits): number {
  const limit = msg.res ? timeoutMs : flowTimeoutMs;
  const own = numberIn(msg['timeout']);
  if (!(own > 0)) return limit;
  return limit === 0 ? own : Math.min(limit, own);
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
