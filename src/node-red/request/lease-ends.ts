/** What the end of a request tells the gate that admitted it. */
import { httpDate, wallTime } from '../../core/clock.ts';
import { type ErrorCode, isErrorCode, type ModeletError } from '../../core/errors.ts';
import type { LeaseEnd } from '../../gate/source.ts';
import type { PipelineMessage } from './messages.ts';

/** This runtime refuses with these because it has too much to do, or nobody to do it. */
const OVERLOAD: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'capacity_exceeded',
  'gate_refused',
  'stage_unavailable',
  'engine_lost',
]);

export function endOfError({
  code,
  retryAfterSeconds = 0,
}: Pick<ModeletError, 'code' | 'retryAfterSeconds'>): LeaseEnd {
  if (code === 'cancelled') return { kind: 'cancelled' };
  return OVERLOAD.has(code) ? { kind: 'refused', retryAfterMs: retryAfterSeconds * 1000 } : { kind: 'failed' };
}

/** Of a message that comes back from anywhere: an `http request` node, a Catch node, or a stage's result. */
export function endOfMessage(msg: PipelineMessage): LeaseEnd {
  const { error, statusCode, headers } = msg;
  const retryAfterMs = retryAfter(headers);
  if (isErrorCode(error?.code)) return endOfError({ code: error.code, retryAfterSeconds: retryAfterMs / 1000 });
  const answered = typeof msg['responseUrl'] === 'string';
  if (answered && (statusCode === 429 || statusCode === 503)) return { kind: 'refused', retryAfterMs };
  // Where there was no answer, `http request` writes why as the status: ECONNREFUSED.
  const failed = error !== undefined || typeof statusCode === 'string' || (answered && Number(statusCode) >= 500);
  return { kind: failed ? 'failed' : 'done' };
}

/** `Retry-After` in ms: seconds, or a date. 0 where there is none, or none that can be read. */
function retryAfter(headers: PipelineMessage['headers']): number {
  const [, value] = Object.entries(headers ?? {}).find(([name]) => name.toLowerCase() === 'retry-after') ?? [];
  if (value === undefined) return 0;
  const text = String(value).trim();
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : httpDate(text) - wallTime();
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
}
