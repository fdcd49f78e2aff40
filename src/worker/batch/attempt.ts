/** Calls user code and turns every outcome into a `Progress`, including a thrown string or a returned Error. */
import { types } from 'node:util';
import type { Progress } from './replies.ts';

/** Synchronous code gives a plain `Progress`; only a promise makes the caller wait. */
export type Attempt = Progress | Promise<Progress>;

export function attempt(call: () => unknown): Attempt {
  try {
    const value = call();
    return isThenable(value) ? Promise.resolve(value).then(checked, failed) : checked(value);
  } catch (thrown) {
    return failed(thrown);
  }
}

/** Treats a returned Error like a thrown one. */
export function checked(value: unknown): Progress {
  return value instanceof Error || types.isNativeError(value) ? failed(value) : { tag: 'going', value };
}

export function failed(error: unknown): Progress {
  return { tag: 'failed', error };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
