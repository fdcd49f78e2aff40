/** Shorthands for the tests of the codec. */
import { decodePayload, type EncodeOptions, encodePayload } from '../../src/wire/codec/codec.ts';

export const AS_INPUT: EncodeOptions = { blame: 'invalid_input', maxBytes: 64 * 1024 * 1024 };
export const AS_RESULT: EncodeOptions = { blame: 'modelet_failed', maxBytes: 64 * 1024 * 1024 };

/** The value as the other side gets it. The bytes are moved, as a frame would, to where nothing is aligned. */
export function roundTrip(value: unknown): unknown {
  const { codec, bytes } = encodePayload(value, AS_INPUT);
  const frame = Buffer.alloc(bytes.byteLength + 3, 0xee);
  frame.set(bytes, 3);
  return decodePayload({ codec, bytes: frame.subarray(3) });
}

export function codecOf(value: unknown): number {
  return encodePayload(value, AS_INPUT).codec;
}
