/** Reads from messages what a request needs: its timeout, its priority, and the properties that users name. */
import type { NodeAPI, NodeMessage } from 'node-red';
import type { RuntimeConfig } from '../../config/compile.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import { stickyHash } from '../../core/versions.ts';
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

/**
 * Returns the hash of the value whose requests stay on one version of a stage; 0 if the message has no such value.
 */
export function stickyOf(RED: NodeAPI, msg: NodeMessage, property: string): number {
  try {
    return stickyHash(RED.util.getMessageProperty(msg, property));
  } catch {
    // The object that would hold the value is missing.
    return 0;
  }
}

/** Returns a number or a numeric string as a number; NaN for any other value. */
export function numberIn(property: unknown): number {
  return typeof property === 'number' || typeof property === 'string' ? Number(property) : Number.NaN;
}

/**
 * Checks the syntax of a property expression.
 * @throws ModeletError `config_invalid` if Node-RED cannot parse the expression
 */
export function checkMessageProperty(RED: NodeAPI, property: string, expression: string): void {
  try {
    RED.util.normalisePropertyExpression(expression);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `${property}: ${asError(thrown).message}`);
  }
}

/**
 * Returns the value that a stage reads. A missing property is undefined, as in Node-RED's core nodes.
 * @throws ModeletError `invalid_input` if the object that would hold the property is missing; names the missing part
 */
export function readMessageProperty(RED: NodeAPI, msg: NodeMessage, expression: string): unknown {
  try {
    return RED.util.getMessageProperty(msg, expression);
  } catch (thrown) {
    const missing = missingPart(RED, msg, expression);
    if (missing === null) throw thrown;
    const what = /^req\.files\b/.test(missing) ? 'no file was sent' : `${missing} is missing`;
    throw new ModeletError('invalid_input', `${what}: the stage reads msg.${expression}`);
  }
}

/** Returns the first missing part of a path, for example `payload.image` of `payload.image.data`; null if none is. */
function missingPart(RED: NodeAPI, msg: NodeMessage, expression: string): string | null {
  let part: unknown = msg;
  let way = '';
  for (const key of RED.util.normalisePropertyExpression(expression, msg)) {
    if (part === undefined || part === null) return way;
    part = (part as Record<string | number, unknown>)[key as string];
    way += typeof key === 'number' ? `[${key}]` : `${way === '' ? '' : '.'}${String(key)}`;
  }
  return null;
}
