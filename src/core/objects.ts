/** Tells kinds of objects apart, in any realm: function nodes create objects in another realm. */

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** Whether the value is an object with named fields: no array, no bytes. */
export function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

/** Whether the object was made by a literal or has no prototype. */
export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

/** Whether the object is of a class and has no data in its own properties, such as a Promise or a library's handle. */
export function hasNoData(value: object): boolean {
  if (isPlainObject(value)) return false;
  return Object.keys(value).every((key) => (value as Record<string, unknown>)[key] === undefined);
}

/** Advice for the author of code that returns an object without data, or an object that only its own process can use. */
export const RETURN_DATA = 'return its data as a plain object, an array, a Buffer or a typed array';

/** Returns the name of the object's class, for messages. */
export function className(value: object): string {
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? name
    : Object.prototype.toString.call(value).slice(8, -1);
}
