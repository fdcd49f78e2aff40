/** Lets the examples of a modelet prove that a batch answers as single calls do, if the modelet asks for that. */
import type { Payload } from '../../../core/model.ts';
import { CODEC, decodePayload } from '../../../wire/codec/codec.ts';
import { decodeModeletError } from '../../../wire/codec/error-codec.ts';
import type { WireItem } from '../../../wire/frames/items.ts';
import type { LoadedModelet } from '../modelet/modelet.ts';
import { type ExampleRun, payloadOf, runPayloads } from './examples.ts';
import { type Proof, proveBatch } from './proof.ts';

const MOST_EXAMPLES = 8;

/**
 * Returns the modelet. Its items run one by one if the proof fails. A stage without a batcher may get one while the
 * worker runs, so two examples run together even then.
 */
export async function proven(modelet: LoadedModelet, batchSize: number, run: ExampleRun): Promise<LoadedModelet> {
  if (!modelet.mustProve) return modelet;
  const payloads = payloadsOf(modelet, Math.max(2, Math.min(batchSize, MOST_EXAMPLES)), run);
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
  return { ...modelet, batching: { items: 'singly', text: `items run one by one: ${reasonOf(proof)}` } };
}

function reasonOf(proof: Exclude<Proof, { tag: 'same' }>): string {
  return proof.tag === 'differs' ? proof.why : `${proof.why}, or set batch to true if results do not mix`;
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
