/** Builds the errors of requests that a gate does not admit. */
import type { GateConfig } from '../config/compile-gate.ts';
import { ModeletError } from '../core/errors.ts';
import { retrySeconds } from '../core/figures.ts';
import type { Admission } from './admission/admission.ts';

/** `Retry-After` is at least the sampling interval, here and in `refusedClosed`: the next reading may find room. */
export function refusedFull(admission: Admission, { capacity, intervalMs }: GateConfig): ModeletError {
  const text = `${named(admission)} has ${capacity} requests waiting, its capacity${because(admission)}`;
  return refusal(admission, text, intervalMs);
}

export function refusedClosed(admission: Admission, { intervalMs }: GateConfig): ModeletError {
  return refusal(
    admission,
    `${named(admission)} admits no request now, and lets none wait${because(admission)}`,
    intervalMs,
  );
}

export function refusedExpired(admission: Admission): ModeletError {
  const text = `not let through by ${named(admission)} before its deadline${because(admission)}`;
  return new ModeletError('deadline_exceeded', text);
}

export function refusedDropped(admission: Admission): ModeletError {
  return new ModeletError('dropped', `dropped by a message to ${named(admission)}`);
}

export function refusedCancelled(admission: Admission): ModeletError {
  return new ModeletError('cancelled', `cancelled while it waited at ${named(admission)}`);
}

export function refusedCost(admission: Admission, cost: unknown): ModeletError {
  const text = `${named(admission)} counts ${admission.rule.unit}: the cost of a request must be a number from 0, not ${String(cost)}`;
  return new ModeletError('invalid_input', text);
}

function refusal(admission: Admission, text: string, intervalMs: number): ModeletError {
  const retryAfterMs = Math.max(intervalMs, admission.refusedForMs());
  return new ModeletError('gate_refused', text, { retryAfterSeconds: retrySeconds(retryAfterMs) });
}

/** Starts a new line: the text may name systems behind the gate, and clients only get the first line of an error. */
function because(admission: Admission): string {
  return `\nit is ${admission.why()}`;
}

function named({ name }: Admission): string {
  return `the gate "${name}"`;
}
