/**
 * Reads the rows of a body: the elements of an array, the lines of JSON lines, or the rows of a table in CSV. Rows of JSON
 * go to the worker as they were written. Pure.
 */
import { asModeletError, ModeletError } from '../../core/errors.ts';
import { CODEC, encodePayload } from '../../wire/codec/codec.ts';
import { BACKSLASH, CLOSE, CURLY, OPEN, parseJsonText, QUOTE } from '../../wire/codec/json-text.ts';
import { decodeText } from '../body.ts';
import { type BodyType, mediaKindOf, mediaTypeOf } from '../request-head.ts';
import { isLines } from '../streaming/stream-form.ts';
import { decodeMsgpack } from '../values/msgpack.ts';
import { csvRowsOf } from './csv.ts';
import type { RowInput } from './rows.ts';

export type RowFormat = 'json' | 'msgpack' | 'lines' | 'csv';

export interface BodyOfRows {
  readonly format: RowFormat;
  readonly type: BodyType;
  /** Most rows. */
  readonly most: number;
  /** Most bytes of a row. */
  readonly maxBytes: number;
}

const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const END_OF_LINE = 0x0a;

/** Returns the format in which a body may have rows; null for any other body. */
export function rowFormatOf(contentType: string | undefined): RowFormat | null {
  const type = mediaTypeOf(contentType ?? '') ?? '';
  const kind = mediaKindOf(type);
  if (kind !== 'other') return kind;
  if (type === 'text/csv') return 'csv';
  return isLines(type) ? 'lines' : null;
}

/**
 * Returns the rows of a body; null if its value is no array.
 * @throws ModeletError `bad_request` for an array that cannot be read, and for text in another character set than the
 * body claims; `payload_too_large` for too many rows
 */
export function readRows(body: Buffer, { format, type, most, maxBytes }: BodyOfRows): RowInput[] | null {
  const rows = rowsIn(body, format, type);
  if (rows === null || rows.length === 0) return rows && [];
  if (rows.length > most)
    throw new ModeletError('payload_too_large', `the request has ${rows.length} rows; the limit is ${most} rows`);
  return rows.map((row) => {
    try {
      if (row instanceof WrittenRow) return row.payload();
      if (row instanceof ModeletError) throw row;
      return encodePayload(row, { blame: 'invalid_input', maxBytes });
    } catch (thrown) {
      const { message } = asModeletError(thrown, 'invalid_input');
      return new ModeletError('invalid_input', message);
    }
  });
}

/** Returns values, lines of JSON, and errors. */
function rowsIn(body: Buffer, format: RowFormat, type: BodyType): unknown[] | null {
  switch (format) {
    case 'csv':
      return csvRowsOf(decodeText(body, type));
    case 'msgpack': {
      const value = decodeMsgpack(body);
      return Array.isArray(value) ? value : null;
    }
    case 'lines':
      return linesOf(body);
    case 'json':
      return isArray(body) && Array.isArray(parseJsonText(body)) ? elementsOf(body) : null;
  }
}

/** A row of JSON that a client has written. */
class WrittenRow {
  readonly #bytes: Buffer;
  /** Its line in the body; 0: it has been read with the whole body. */
  readonly #number: number;

  constructor(bytes: Buffer, number: number) {
    this.#bytes = bytes;
    this.#number = number;
  }

  /** @throws ModeletError if the line is not JSON */
  payload(): RowInput {
    try {
      if (this.#number > 0) parseJsonText(this.#bytes);
    } catch (thrown) {
      const { code, message } = asModeletError(thrown, 'bad_request');
      throw new ModeletError(code, `line ${this.#number}: ${message.replace(/^the body/, 'it')}`);
    }
    return { codec: CODEC.jsonText, bytes: this.#bytes };
  }
}

function linesOf(body: Buffer): WrittenRow[] {
  const lines: WrittenRow[] = [];
  for (let [at, number] = [0, 1]; at < body.length; number += 1) {
    const found = body.indexOf(END_OF_LINE, at);
    const end = found < 0 ? body.length : found;
    const line = trimmed(body, at, end);
    if (line.length > 0) lines.push(new WrittenRow(line, number));
    at = end + 1;
  }
  return lines;
}

/** Whether the first sign of a text in JSON begins an array. The text may have a byte order mark. */
function isArray(body: Buffer): boolean {
  const start = body.length >= 3 && body.readUIntBE(0, 3) === 0xefbbbf ? 3 : 0;
  return trimmed(body, start, Math.min(body.length, start + 1024))[0] === OPEN_ARRAY;
}

/** Takes a text apart that is an array in JSON. */
function elementsOf(body: Buffer): WrittenRow[] {
  const elements: WrittenRow[] = [];
  let start = body.indexOf(OPEN_ARRAY) + 1;
  let depth = 0;
  for (let at = start; depth >= 0; at += 1) {
    const sign = body[at] as number;
    if (sign === QUOTE) at = endOfText(body, at);
    else if ((sign | CURLY) === OPEN) depth += 1;
    else if ((sign | CURLY) === CLOSE) depth -= 1;
    if (depth > 0 || (depth === 0 && sign !== COMMA)) continue;
    const element = trimmed(body, start, at);
    // Only an empty array has an element without any sign.
    if (element.length > 0) elements.push(new WrittenRow(element, 0));
    start = at + 1;
  }
  return elements;
}

/** Returns where the text ends that begins with a quote. */
function endOfText(body: Buffer, start: number): number {
  let at = start + 1;
  while (at < body.length && body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
  return at;
}

function trimmed(body: Buffer, from: number, to: number): Buffer {
  let [start, end] = [from, to];
  while (start < end && isSpace(body[start])) start += 1;
  while (end > start && isSpace(body[end - 1])) end -= 1;
  return body.subarray(start, end);
}

/** Whether a byte is white space of JSON. */
function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === END_OF_LINE || byte === 0x0d;
}
