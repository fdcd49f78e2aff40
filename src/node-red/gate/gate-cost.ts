/** Computes the cost of a message, in the gate's unit. */
import type { NodeAPI } from 'node-red';
import type { GateConfig } from '../../config/compile-gate.ts';
import { ModeletError } from '../../core/errors.ts';
import { encodePayload } from '../../wire/codec/codec.ts';
import type { PipelineMessage } from '../request/messages.ts';
import { numberIn } from '../request/request-terms.ts';

/** Returns the cost of a message. @throws ModeletError `invalid_input` if the message lacks a valid cost property. */
export function costOf(
  RED: NodeAPI,
  msg: PipelineMessage,
  { unit, costProperty }: Pick<GateConfig, 'unit' | 'costProperty'>,
): number {
  if (unit === 'requests') return 1;
  if (costProperty === '') return sizeOf(msg.payload);
  const cost = numberIn(RED.util.getMessageProperty(msg, costProperty));
  if (cost >= 0 && Number.isFinite(cost)) return cost;
  throw new ModeletError('invalid_input', `msg.${costProperty} must be the number of ${unit}`);
}

function sizeOf(payload: unknown): number {
  if (typeof payload === 'string') return Buffer.byteLength(payload);
  if (ArrayBuffer.isView(payload)) return payload.byteLength;
  const limits = { blame: 'invalid_input', maxBytes: Number.MAX_SAFE_INTEGER } as const;
  return encodePayload(payload, limits).bytes.byteLength;
}
