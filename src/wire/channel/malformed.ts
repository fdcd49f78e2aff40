/** What is said of bytes that are no frames. */
import { ModeletError } from '../../core/errors.ts';

export function malformed(what: string): ModeletError {
  return new ModeletError('protocol_error', `malformed frame: ${what}`);
}
