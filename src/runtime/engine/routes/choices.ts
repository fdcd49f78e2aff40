/**
 * Chooses the way of an item as a switch node of Node-RED would. This is the only place where the engine reads a value,
 * and only of items whose route has a choice: the stages before it may be of any language, or none, so no other process can.
 */
import type { Payload } from '../../../core/model.ts';
import type { ChoiceOperator, ChoiceRule, RuleValue } from '../../../core/routes/route.ts';
import { decodePayload } from '../../../wire/codec/codec.ts';
import type { LiveChoice, LiveLeg } from '../stage/item.ts';

/** @throws ModeletError if the payload cannot be decoded: `bad_request` for a client's invalid JSON */
export function choose({ path, rules, ways }: LiveChoice, payload: Payload): LiveLeg {
  const value = valueAt(decodePayload(payload), path);
  const chosen = rules.findIndex((rule) => holds(rule, value));
  return ways[chosen < 0 ? ways.length - 1 : chosen] as LiveLeg;
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, name) => {
    return at === null || at === undefined ? undefined : (at as Record<string, unknown>)[name];
  }, value);
}

export function holds({ operator, value, limit }: ChoiceRule, actual: unknown): boolean {
  try {
    return OPERATORS[operator](actual as never, value as never, limit as never);
  } catch {
    // A value without any text, such as an object without a prototype.
    return false;
  }
}

// Node-RED compares as JavaScript does without types: the text "1" equals the number 1.
// biome-ignore-start lint/suspicious/noDoubleEquals: as the switch node does
const OPERATORS: Readonly<Record<ChoiceOperator, (actual: never, value: never, limit: never) => boolean>> = {
  eq: (actual, value) => actual == value,
  neq: (actual, value) => actual != value,
  lt: (actual, value) => actual < value,
  lte: (actual, value) => actual <= value,
  gt: (actual, value) => actual > value,
  gte: (actual, value) => actual >= value,
  btwn: (actual, from, to) => (actual >= from && actual <= to) || (actual <= from && actual >= to),
  cont: (actual, value) => `${actual}`.includes(`${value}`),
  hask: (actual, value) => actual !== undefined && actual !== null && Object.hasOwn(actual, `${value}`),
  istype: (actual, type) => isOfType(actual, type),
  true: (actual) => actual === true,
  false: (actual) => actual === false,
  null: (actual) => actual === undefined || actual === null,
  nnull: (actual) => actual !== undefined && actual !== null,
  empty: (actual) => lengthOf(actual) === 0,
  nempty: (actual) => (lengthOf(actual) ?? 0) > 0,
  else: () => true,
};
// biome-ignore-end lint/suspicious/noDoubleEquals: as the switch node does

function isOfType(actual: unknown, type: RuleValue): boolean {
  if (type === 'array') return Array.isArray(actual);
  if (type === 'buffer') return Buffer.isBuffer(actual);
  if (type === 'json') return isJson(actual);
  if (type === 'null') return actual === null;
  if (type === 'number') return typeof actual === 'number' && !Number.isNaN(actual);
  return typeof actual === type && !Array.isArray(actual) && !Buffer.isBuffer(actual) && actual !== null;
}

function isJson(text: unknown): boolean {
  try {
    JSON.parse(text as string);
    return true;
  } catch {
    return false;
  }
}

/** Returns the number of characters, elements, bytes or properties; undefined if the value has none of them. */
function lengthOf(value: unknown): number | undefined {
  if (typeof value === 'string' || Array.isArray(value) || Buffer.isBuffer(value)) return value.length;
  return typeof value === 'object' && value !== null ? Object.keys(value).length : undefined;
}
