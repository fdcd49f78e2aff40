/** Runs a modelet's example inputs: as a warm-up before the worker is ready, and when a health check asks for it. */
import type { Deadline } from '../../../core/clock.ts';
import type { Payload } from '../../../core/model.ts';
import { encodePayload } from '../../../wire/codec/codec.ts';
import { decodeModeletError, encodeError } from '../../../wire/codec/error-codec.ts';
import { bareItem, type WireItem } from '../../../wire/frames/items.ts';
import { withoutKey } from '../key-states.ts';
import type { LoadedModelet, ModeletContext } from '../modelet/modelet.ts';
import { type BatchRun, runBatch, runsTogether } from './run-batch.ts';

export type ExampleRun = Omit<BatchRun, 'isCancelled' | 'parts' | 'contextFor'> & {
  readonly context: ModeletContext;
  /** Whether the stage has keys. Default: no. */
  readonly hasKeys?: boolean;
};

/**
 * Runs one example as a batch of one, exactly as a request with that payload would run, and drops the result.
 * @returns the encoded error if the example fails or cannot be encoded as a payload, or null if it works.
 */
export async function tryExample(
  modelet: LoadedModelet,
  example: number,
  deadline: Deadline,
  run: ExampleRun,
): Promise<Uint8Array | null> {
  let payload: Payload;
  try {
    payload = payloadOf(modelet, example, run);
  } catch (thrown) {
    return encodeError(thrown);
  }
  const [reply] = await runPayloads(modelet, [payload], deadline, run);
  return reply && !reply.ok ? reply.payload.bytes : null;
}

/**
 * Runs each example alone. If one call takes several inputs, then runs one batch of `batchSize` items that repeats the
 * examples in turn. The batch is smaller if its payloads together reach `maxPayloadBytes`.
 * @throws Error for the first example that fails.
 */
export async function warmUp(modelet: LoadedModelet, batchSize: number, run: ExampleRun): Promise<void> {
  const count = modelet.examples.length;
  for (let example = 0; example < count; example += 1) {
    const failure = await tryExample(modelet, example, Number.POSITIVE_INFINITY, run);
    if (failure) throw warmUpError(`example ${example}`, failure);
  }
  if (!runsTogether(modelet) || count === 0 || batchSize === 1) return;
  const batch: Payload[] = [];
  for (let bytes = 0; batch.length < batchSize && bytes < run.maxPayloadBytes; ) {
    const payload = batch[batch.length - count] ?? payloadOf(modelet, batch.length, run);
    bytes += payload.bytes.byteLength;
    batch.push(payload);
  }
  const replies = await runPayloads(modelet, batch, Number.POSITIVE_INFINITY, run);
  const first = replies.find(({ ok }) => !ok);
  if (first) throw warmUpError(`a batch of ${batch.length} examples`, first.payload.bytes);
}

export function payloadOf(modelet: LoadedModelet, example: number, { maxPayloadBytes }: ExampleRun): Payload {
  return encodePayload(modelet.examples[example], { blame: 'invalid_input', maxBytes: maxPayloadBytes });
}

/** Runs payloads as a batch of requests would run. */
export function runPayloads(
  modelet: LoadedModelet,
  payloads: readonly Payload[],
  deadline: Deadline,
  run: ExampleRun,
): Promise<WireItem[]> {
  const items = payloads.map((payload, id) => ({ ...bareItem(id, payload), deadline }));
  const contextFor = ({ length }: readonly number[]): ModeletContext =>
    run.hasKeys ? withoutKey(run.context, length) : run.context;
  return runBatch(modelet, items, { ...run, isCancelled: () => false, contextFor, parts: null });
}

function warmUpError(what: string, failure: Uint8Array): Error {
  const cause = decodeModeletError(failure, 'modelet_failed');
  return new Error(`the warm-up failed at ${what}: ${cause.message}`, { cause });
}
