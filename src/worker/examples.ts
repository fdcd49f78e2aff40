/** The inputs that a modelet brings along, to be tried with whether it works. */
import type { Deadline } from '../core/clock.ts';
import type { Payload } from '../core/model.ts';
import { encodePayload } from '../wire/codec.ts';
import { encodeError } from '../wire/error-codec.ts';
import { type BatchRun, type LoadedModelet, runBatch } from './modelet.ts';

/** @throws TypeError where `examples` is there and no array: a check must not pass for want of them. */
export function examplesOf(exported: { readonly examples?: unknown }, path: string): readonly unknown[] {
  const { examples = [] } = exported;
  if (!Array.isArray(examples)) throw new TypeError(`examples in ${path} must be an array, found ${typeof examples}`);
  return examples;
}

/**
 * Runs one example as a batch of its own, as a request with that payload would run. The result is dropped.
 * @returns the encoded error where it fails, an example that cannot be a payload included; null where it works.
 */
export async function tryExample(
  modelet: LoadedModelet,
  example: number,
  deadline: Deadline,
  run: Omit<BatchRun, 'isCancelled'>,
): Promise<Uint8Array | null> {
  let payload: Payload;
  try {
    payload = encodePayload(modelet.examples[example], { blame: 'invalid_input', maxBytes: run.maxPayloadBytes });
  } catch (thrown) {
    return encodeError(thrown);
  }
  const item = { id: 0, deadline, priority: 0, ref: 0, ok: true, patient: false, group: 0, payload, meta: null };
  const [reply] = await runBatch(modelet, [{ ...item, timings: [] }], { ...run, isCancelled: () => false });
  return reply && !reply.ok ? reply.payload.bytes : null;
}
