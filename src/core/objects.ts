/** What kinds of objects there are, in whatever realm they were made: function nodes run in one of their own. */

/** An object of a literal, or one without a prototype. */
export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

/** An object of a class that has no data in properties of its own, such as a Promise or a library's handle. */
export function hasNoData(value: object): boolean {
  if (isPlainObject(value)) return false;
  return Object.keys(value).every((key) => (value as Record<string, unknown>)[key] === undefined);
}

/** What to tell the author of code that gives such an object, or another one that only its own process can use. */
export const RETURN_DATA = 'return its data as a plain object, an array, a Buffer or a typed array';

/** The name of its class, for people. */
export function className(value: object): string {
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === 'string' && name !== '' && name !== 'Object'
    ? name
    : Object.prototype.toString.call(value).slice(8, -1);
}
