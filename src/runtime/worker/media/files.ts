/** Inputs that are files: pictures and sounds as bytes, in whatever form clients and nodes send bytes. */
import { types } from 'node:util';
import { ModeletError } from '../../../core/errors.ts';
import { isFields } from '../../../core/objects.ts';

/** The part of an input object that this folder reads. */
export type InputFields = Readonly<Record<string, unknown>>;

const DATA_URL = /^data:[^,]*;base64,/i;
const BASE64 = /^[\w+/\s-]*={0,2}\s*$/;
/** Characters of a text that are looked at: the rest of a long one is only decoded. */
const LOOKED_AT = 4096;

/**
 * Returns the bytes of a file: a Buffer, base64, a data URL, the file of a form, or a Buffer that went through JSON. Null
 * for anything else.
 */
export function fileBytes(value: unknown): Uint8Array | null {
  if (typeof value === 'string') return bytesOfText(value);
  if (types.isUint8Array(value)) return value;
  if (types.isAnyArrayBuffer(value)) return new Uint8Array(value);
  if (!isFields(value)) return null;
  if (types.isUint8Array(value['buffer'])) return value['buffer'];
  return value['type'] === 'Buffer' && Array.isArray(value['data']) ? Buffer.from(value['data']) : null;
}

function bytesOfText(text: string): Uint8Array | null {
  const head = DATA_URL.exec(text);
  const content = head ? text.slice(head[0].length) : text;
  return content.length > 0 && BASE64.test(content.slice(0, LOOKED_AT)) ? Buffer.from(content, 'base64') : null;
}

/** The input is not what the task takes. */
export function notTaken(message: string, cause?: unknown): ModeletError {
  return new ModeletError('invalid_input', message, { cause });
}

export function beyondLimit(message: string): ModeletError {
  return new ModeletError('payload_too_large', message);
}
