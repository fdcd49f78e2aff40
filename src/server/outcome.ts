/** What an outcome is that comes back as an item of a frame. */
import type { Outcome, Payload } from '../core/model.ts';
import { decodeModeletError } from '../wire/error-codec.ts';
import type { WireItem } from '../wire/frames.ts';

export function outcomeOf({ ok, payload }: WireItem): Outcome<Payload> {
  return ok ? { ok, value: payload } : { ok, error: decodeModeletError(payload.bytes, 'protocol_error') };
}
