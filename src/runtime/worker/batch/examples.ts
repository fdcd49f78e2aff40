/**
 * Runs a modelet's example inputs: as a proof that a batch answers as single calls do, as a warm-up before the worker is
 * ready, and when a health check asks for it.
 */
import type { Deadline } from '../../../core/clock.ts';
import type { Payload } from '../../../core/model.ts';
import { CODEC, decodePayload, encodePayload } from '../../../wire/codec/codec.ts';
import { decodeModeletError, encodeError } from '../../../wire/codec/error-codec.ts';
import { bareItem, type WireItem } from '../../../wire/frames/items.ts';
import { withoutKey } from '../key-states.ts';
import type { LoadedModelet, ModeletContext } from '../modelet/modelet.ts';
import { proveBatch, singly } from './proof.ts';
import { type BatchRun, runBatch, runsTogether } from './run-batch.ts';

/** Most examples that prove a batch. */
const MOST_TRIED = 8;

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

/**
 * Lets the examples prove that a batch answers as single calls do, if the modelet asks for that. Returns the modelet; its
 * items run one by one if the proof fails. A stage without a batcher may get one while the worker runs, so two examples run
 * together even then.
 */
export async function proven(modelet: LoadedModelet, batchSize: number, run: ExampleRun): Promise<LoadedModelet> {
  if (!modelet.mustProve) return modelet;
  const payloads = payloadsOf(modelet, Math.max(2, Math.min(batchSize, MOST_TRIED)), run);
  const proof = await proveBatch(payloads, {
    clock: run.clock,
    run: async (rows) => {
      // An input may keep its bytes and be changed by the modelet.
      const own = rows.map(({ codec, bytes }) => ({ codec, bytes: Buffer.from(bytes) }));
      return (await runPayloads(modelet, own, Number.POSITIVE_INFINITY, run)).map(answerOf);
    },
    // Values that no author expects could make code do anything.
    enlarged: () => [],
  });
  if (proof.tag === 'same') return modelet;
  const advice = proof.tag === 'unproven' ? ', or set batch to true if results do not mix' : '';
  return { ...modelet, batching: singly(proof.why + advice) };
}

/** Returns the first examples, as many as a batch takes. The warm-up reports an example that cannot be encoded. */
function payloadsOf(modelet: LoadedModelet, most: number, run: ExampleRun): Payload[] {
  const payloads: Payload[] = [];
  let bytes = 0;
  for (let example = 0; example < modelet.examples.length && payloads.length < most; example += 1) {
    try {
      const payload = payloadOf(modelet, example, run);
      bytes += payload.bytes.byteLength;
      if (payloads.length >= 2 && bytes > run.maxPayloadBytes) break;
      payloads.push(payload);
    } catch {}
  }
  return payloads;
}

/** Returns the result as the caller gets it, or its bytes if it may have cycles, or the error. */
function answerOf({ ok, payload }: WireItem): unknown {
  if (!ok) return decodeModeletError(payload.bytes, 'modelet_failed');
  return payload.codec === CODEC.structured ? payload.bytes : decodePayload(payload);
}

function payloadOf(modelet: LoadedModelet, example: number, { maxPayloadBytes }: ExampleRun): Payload {
  return encodePayload(modelet.examples[example], { blame: 'invalid_input', maxBytes: maxPayloadBytes });
}

/** Runs payloads as a batch of requests would run. */
function runPayloads(
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
