/**
 * Large batches and results beside their jobs: each is a separate binary value on the server, and its job refers to
 * it. A job holds JSON, in which bytes are a third longer, and BullMQ copies the result of a job into its stream of
 * events, where the last 10,000 stay.
 *
 * A value outlives its writer by `KEPT_MS`. The runtime renews those of its open batches, and deletes a batch's
 * values when it settles.
 */
import type { BrokerAccess, BrokerLink } from '../broker/broker-link.ts';
import { ModeletError } from '../core/errors.ts';
import type { Payload } from '../core/model.ts';
import { CODEC } from '../wire/codec/codec.ts';

/** Largest number of bytes that travel inside a job. Above it, the further commands cost less than Base64 does. */
export const LARGEST_INLINE: number = 16 * 1024;

/** Longest string of Redis and Valkey. */
const LARGEST_VALUE = 512 * 1024 * 1024;
const KEPT_MS = 60_000;
/** Codec of a payload that refers to a value. Its text is the length of the value. */
const BESIDE = 255;

type ValueKind = 'batch' | 'result';

export class BatchValues {
  readonly #link: BrokerLink;
  readonly #largestInline: number;
  /** Open batches of this runtime that have values. */
  readonly #known: Set<string> = new Set();

  constructor(link: BrokerLink, largestInline: number) {
    this.#link = link;
    this.#largestInline = largestInline;
  }

  /**
   * Returns the payload that the job holds, and the write that must be sent before the job is: commands of one
   * connection are carried out in their order.
   * @throws ModeletError `payload_too_large`
   */
  put(
    kind: ValueKind,
    id: string,
    payload: Payload,
  ): { readonly held: Payload; write(reached: BrokerAccess): Promise<unknown> } {
    const { byteLength } = payload.bytes;
    if (byteLength <= this.#largestInline) return { held: payload, write: async () => {} };
    if (byteLength > LARGEST_VALUE) {
      throw new ModeletError('payload_too_large', `a ${kind} of ${byteLength} bytes is too large for a worker host`);
    }
    if (kind === 'batch') this.#known.add(id);
    const value = Buffer.from(payload.bytes.buffer, payload.bytes.byteOffset, byteLength);
    return {
      held: { codec: BESIDE, bytes: Buffer.from(String(byteLength)) },
      write: ({ server, queue }) => server.set(queue.toKey(keyOf(kind, id)), value, { PX: KEPT_MS }),
    };
  }

  /** Returns what was put. @throws ModeletError `protocol_error` if the value is gone or another one */
  async get(kind: ValueKind, id: string, held: Payload): Promise<Payload> {
    if (held.codec !== BESIDE) return held;
    if (kind === 'result') this.#known.add(id);
    const bytes = await this.#link.reach(({ binary, queue }) => binary.get(queue.toKey(keyOf(kind, id))));
    if (bytes?.byteLength === Number(Buffer.from(held.bytes).toString())) return { codec: CODEC.bytes, bytes };
    throw new ModeletError('protocol_error', `the bytes of its ${kind} are no longer on the broker`);
  }

  /** Keeps the values of the batches that have not settled. */
  async renew(): Promise<void> {
    const ids = [...this.#known];
    if (ids.length === 0) return;
    await this.#link.reach(({ server, queue }) =>
      Promise.all(ids.map((id) => server.pExpire(queue.toKey(keyOf('batch', id)), KEPT_MS))),
    );
  }

  /** Deletes the values of a batch that has settled. */
  drop(id: string): void {
    if (!this.#known.delete(id)) return;
    const keys = (['batch', 'result'] as const).map((kind) => keyOf(kind, id));
    this.#link
      .reach(({ server, queue }) => server.unlink(keys.map((key) => queue.toKey(key))))
      // They expire.
      .catch(() => {});
  }
}

function keyOf(kind: ValueKind, id: string): string {
  return `${kind}:${id}`;
}
