/** What a runtime says to requests that it does not serve. */
import { ModeletError } from '../core/errors.ts';

/** `pauseMs`: until the next engine starts. */
export function engineLost(message: string, cause: Error, pauseMs: number): ModeletError {
  return new ModeletError('engine_lost', message, { cause, retryAfterSeconds: Math.max(1, Math.ceil(pauseMs / 1000)) });
}

export function shuttingDown(): ModeletError {
  return new ModeletError('shutting_down', 'the runtime is shutting down');
}
