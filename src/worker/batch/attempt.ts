/** Calls of user code: whatever it does ends in a progress, also a thrown string or a returned Error. */
import { types } from 'node:util';
import type { Progress } from './replies.ts';

/** Only promises are waited for. */
export type Attempt = Progress | Promise<Progress>;

export function attempt(call: () => unknown): Attempt {
  try {
    const value = call();
    return isThenable(value) ? Promise.resolve(value).then(checked, failed) : checked(value);
  } catch (thrown) {
    return failed(thrown);
  }
}

/** A returned Error is a thrown one. */
export function checked(value: unknown): Progress {
  return value instanceof Error || types.isNativeError(value) ? failed(value) : { tag: 'going', value };
}

export function failed(error: unknown): Progress {
  return { tag: 'failed', error };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
