/**
 * Embeddings for clients of OpenAI's API. Its libraries ask for base64 unless the program says otherwise, and decode
 * whatever comes, so a list of numbers would become other numbers without an error.
 */
import type { Payload } from '../../core/model.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import { jsonable } from '../values/conversion.ts';

const EMBEDDINGS = /\/embeddings\/?$/i;
const BYTES_PER_FLOAT = 4;

/** Whether clients send requests for embeddings to a path: the libraries append it to their base URL. */
export function isForEmbeddings(path: string): boolean {
  return EMBEDDINGS.test(path);
}

/** Whether a request's body asks for embeddings as base64. */
export function asksBase64(body: unknown): boolean {
  return ((body ?? {}) as { readonly encoding_format?: unknown }).encoding_format === 'base64';
}

/** The same for a body that is still encoded. Most bodies need no parser to tell. */
export function asksBase64In(payload: Payload): boolean {
  const { buffer, byteOffset, byteLength } = payload.bytes;
  return Buffer.from(buffer, byteOffset, byteLength).includes('"base64"') && asksBase64(bodyOrNull(payload));
}

/** Returns the value of a body that is still encoded; null if it is not readable: the worker says what is wrong with it. */
export function bodyOrNull(payload: Payload): unknown {
  try {
    return decodePayload(payload);
  } catch {
    return null;
  }
}

/** Returns a result with its embeddings as base64 of float32, little-endian. Leaves everything else as it is. */
export function inBase64(result: unknown): unknown {
  const { data } = (result ?? {}) as { readonly data?: unknown };
  if (!Array.isArray(data)) return result;
  return { ...(result as object), data: data.map(withBase64) };
}

function withBase64(entry: unknown): unknown {
  const { embedding } = (entry ?? {}) as { readonly embedding?: unknown };
  const numbers = typeof embedding === 'object' ? vectorOf(jsonable(embedding)) : null;
  return numbers === null ? entry : { ...(entry as object), embedding: base64Of(numbers) };
}

/** Returns the numbers of a vector, or of a matrix of one row; null for anything else. */
function vectorOf(value: unknown): readonly number[] | null {
  if (!Array.isArray(value)) return null;
  if (value.length === 1 && Array.isArray(value[0])) return vectorOf(value[0]);
  return value.every((element) => typeof element === 'number') ? value : null;
}

function base64Of(numbers: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(numbers.length * BYTES_PER_FLOAT);
  for (const [index, number] of numbers.entries()) bytes.writeFloatLE(number, index * BYTES_PER_FLOAT);
  return bytes.toString('base64');
}
