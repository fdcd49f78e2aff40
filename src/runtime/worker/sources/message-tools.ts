/** The members of `RED.util` that inline code has in a worker. They do what those of Node-RED do. */
import { isDeepStrictEqual } from 'node:util';
import type { UTIL_NAMES } from '../../../config/code/function-code.ts';
import { isPlainObject } from '../../../core/objects.ts';

/** Stands for a value that stays in Node-RED's process. Any use but passing it on fails with the reason. */
export class Kept {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  toJSON(): never {
    throw new Error(`msg.${this.name} stays in Node-RED\u2019s process, so only msg itself can pass it on`);
  }
}

/** Splits `a.b[0]["c d"]` into its keys. @throws Error for anything else */
export function keysOf(expression: string): string[] {
  const keys: string[] = [];
  const token = /\.?([^.[\]"'\s]+)|\[(\d+)\]|\[(["'])(.*?)\3\]/gy;
  for (let at = 0; at < expression.length; at = token.lastIndex) {
    const [, name, index, , quoted] = token.exec(expression) ?? [];
    const key = name ?? index ?? quoted;
    if (key === undefined) throw new Error(`Invalid property expression: ${expression}`);
    keys.push(key);
  }
  return keys;
}

export function getProperty(object: unknown, expression: string): unknown {
  let value: unknown = object;
  for (const key of keysOf(expression)) value = (value as Record<string, unknown>)[key];
  return value;
}

/** Deletes the property if the value is undefined, as Node-RED does. Returns whether it could be set. */
export function setProperty(object: object, expression: string, value: unknown, creates = true): boolean {
  const keys = keysOf(expression);
  const last = keys.pop() ?? '';
  let target = object as Record<string, unknown>;
  for (const [at, key] of keys.entries()) {
    if (creates && value !== undefined) target[key] ??= /^\d+$/.test(keys[at + 1] ?? last) ? [] : {};
    if (typeof target[key] !== 'object' || target[key] === null) return false;
    target = target[key] as Record<string, unknown>;
  }
  if (value === undefined) delete target[last];
  else target[last] = value;
  return true;
}

/** Returns a copy that shares only what stays in Node-RED's process. */
export function cloneMessage<T>(message: T): T {
  if (message === null || typeof message !== 'object' || Array.isArray(message)) return structuredClone(message);
  const entries = Object.entries(message).map(([key, value]) => [key, value instanceof Kept ? value : clone(value)]);
  return Object.fromEntries(entries) as T;
}

export function clone(value: unknown): unknown {
  // A structured clone of a Buffer is an Uint8Array.
  if (Buffer.isBuffer(value)) return Buffer.from(value);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(clone);
  if (!isPlainObject(value)) return structuredClone(value);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, clone(part)]));
}

const ofMessage = (expression: string): string => expression.replace(/^msg\./, '');

export const UTIL: Readonly<Record<string, (...args: never[]) => unknown>> = {
  cloneMessage,
  // Node.js loads this object on use: to import the module would add a tenth to the start of each worker.
  generateId: () => Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString('hex'),
  ensureString: (value: unknown) => {
    if (Buffer.isBuffer(value)) return value.toString();
    return typeof value === 'object' ? JSON.stringify(value) : String(value);
  },
  ensureBuffer: (value: unknown) => {
    if (Buffer.isBuffer(value)) return value;
    return Buffer.from(typeof value === 'object' ? JSON.stringify(value) : String(value));
  },
  compareObjects: (one: unknown, other: unknown) => isDeepStrictEqual(one, other),
  getMessageProperty: (message: object, expression: string) => getProperty(message, ofMessage(expression)),
  setMessageProperty: (message: object, expression: string, value: unknown, creates = true) =>
    setProperty(message, ofMessage(expression), value, creates),
  getObjectProperty: getProperty,
  setObjectProperty: setProperty,
} satisfies Record<(typeof UTIL_NAMES)[number], (...args: never[]) => unknown>;
