/** Makes the error for bytes that are not a valid frame. */
import { ModeletError } from '../../core/errors.ts';

export function malformed(what: string): ModeletError {
  return new ModeletError('protocol_error', `malformed frame: ${what}`);
}
