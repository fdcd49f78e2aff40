/** Settings that are JSON. */
import { unreadable } from './unreadable.ts';

/** @throws Unreadable */
export function parseJsonSetting(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const { message } = error as Error;
    throw unreadable(message, 'json', { reason: message });
  }
}

function isObject(value: unknown): value is object {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/**
 * Parses a JSON Schema. A deploy also checks its content.
 * @throws Unreadable
 */
export function parseSchemaText(text: string): object | boolean {
  const schema = parseJsonSetting(text);
  if (typeof schema === 'boolean' || isObject(schema)) return schema;
  throw unreadable('must be a JSON Schema, which is an object', 'schema');
}

/**
 * Parses the labels that a series of Prometheus must have.
 * @throws Unreadable
 */
export function parseLabels(text: string): Readonly<Record<string, string>> {
  const labels = parseJsonSetting(text);
  if (!isObject(labels)) throw unreadable('must be a JSON object of names and values', 'labels');
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]));
}
