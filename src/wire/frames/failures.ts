/**
 * Encodes failures: a failed item has a special payload, the error and, if the server does not have it, the input of the
 * failing stage.
 *
 *   codec   codec of the input; `none` if there is no input and the bytes are only the error
 *   bytes   u32 length of the error | u32 0 | the error, see error-codec.ts, padded to 8 | the input
 */
import type { ModeletError } from '../../core/errors.ts';
import type { Outcome, Payload } from '../../core/model.ts';
import type { GatherReport } from '../../core/routes/gather.ts';
import { CODEC } from '../codec/codec.ts';
import { decodeModeletError, encodeError } from '../codec/error-codec.ts';
import { padded } from '../codec/sizes.ts';
import { malformed, type WireItem } from './items.ts';

/** Bytes in front of the error of a failure that has an input. */
const FAILURE_HEAD = 8;

interface Failure {
  readonly error: ModeletError;
  readonly input: Payload | null;
}

/** Returns the payload of an item that has failed. @param input see above; null: the server has it */
export function failedPayload(error: ModeletError, input: Payload | null): Payload {
  return encodeFailure(encodeError(error), input);
}

/** @param error the error, encoded by `encodeError` */
export function encodeFailure(error: Uint8Array, input: Payload | null): Payload {
  if (input === null) return { codec: CODEC.none, bytes: error };
  const inputAt = FAILURE_HEAD + padded(error.byteLength);
  const bytes = Buffer.allocUnsafe(inputAt + input.bytes.byteLength);
  bytes.fill(0, 0, inputAt);
  bytes.writeUInt32LE(error.byteLength, 0);
  bytes.set(error, FAILURE_HEAD);
  bytes.set(input.bytes, inputAt);
  return { codec: input.codec, bytes };
}

/** Decodes a failure. Never throws: unreadable bytes become a `protocol_error`. The input is a view of the bytes. */
export function decodeFailure({ codec, bytes }: Payload): Failure {
  if (codec === CODEC.none) return { error: decodeModeletError(bytes, 'protocol_error'), input: null };
  if (bytes.byteLength < FAILURE_HEAD) return { error: malformed('a failure is too short'), input: null };
  const length = Buffer.from(bytes.buffer, bytes.byteOffset, FAILURE_HEAD).readUInt32LE(0);
  const inputAt = FAILURE_HEAD + padded(length);
  if (inputAt > bytes.byteLength) return { error: malformed('an error reaches beyond its failure'), input: null };
  const error = decodeModeletError(bytes.subarray(FAILURE_HEAD, FAILURE_HEAD + length), 'protocol_error');
  return { error, input: { codec, bytes: bytes.subarray(inputAt) } };
}

/** Returns what the nodes that gather branches did on the way of an item that comes from the engine; null: it met none. */
export function gatheredOf({ meta }: WireItem): GatherReport | null {
  return meta && (JSON.parse(Buffer.from(meta.buffer, meta.byteOffset, meta.byteLength).toString()) as GatherReport);
}

/** Returns the outcome that an item brings from the engine. */
export function outcomeOf({ ok, payload }: WireItem): Outcome<Payload> {
  if (ok) return { ok, value: payload };
  const { error, input } = decodeFailure(payload);
  return { ok, error, ...(input ? { input } : {}) };
}
