/** Reads the outcome that an item of a frame carries. */
import type { Outcome, Payload } from '../core/model.ts';
import { decodeFailure } from '../wire/frames/failure.ts';
import type { WireItem } from '../wire/frames/frames.ts';

export function outcomeOf({ ok, payload }: WireItem): Outcome<Payload> {
  if (ok) return { ok, value: payload };
  const { error, input } = decodeFailure(payload);
  return { ok, error, ...(input ? { input } : {}) };
}
