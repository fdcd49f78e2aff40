/** Reads the items of a paced split one at a time, from an array, a text or a file. Never reads a whole file. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import type { NodeAPI } from 'node-red';
import type { FeedConfig } from '../../config/compile.ts';
import { resolveModeletFile } from '../../config/folders.ts';
import { ModeletError } from '../../core/errors.ts';
import { csvRows } from '../../http/rows/csv.ts';

interface FeedInput {
  readonly payload?: unknown;
  readonly filename?: unknown;
}

export interface FeedItem {
  /** The item, or the error if it cannot be read. */
  readonly value: unknown;
  /** Whether this is the last item. The reader knows this only after it has looked for the next item. */
  readonly last: boolean;
}

/**
 * Yields the items of a message. Lines and rows come from the file that `msg.filename` names, else from a text or Buffer in the
 * payload.
 * @throws ModeletError `invalid_input` if the payload cannot be split
 */
export async function* feedItems(RED: NodeAPI, msg: FeedInput, from: FeedConfig['from']): AsyncGenerator<FeedItem> {
  let previous: { readonly value: unknown } | null = null;
  try {
    for await (const value of from === 'array' ? elements(msg.payload) : records(RED, msg, from)) {
      if (previous) yield { ...previous, last: false };
      previous = { value };
    }
  } catch (thrown) {
    // The item before the place that cannot be read is as good as those before it.
    if (previous) yield { ...previous, last: false };
    throw thrown;
  }
  if (previous) yield { ...previous, last: true };
}

function elements(payload: unknown): readonly unknown[] {
  if (Array.isArray(payload)) return payload;
  throw new ModeletError('invalid_input', `msg.payload must be an array, it is a value of type ${typeof payload}`);
}

async function* records(
  RED: NodeAPI,
  msg: FeedInput,
  from: Exclude<FeedConfig['from'], 'array'>,
): AsyncGenerator<unknown> {
  const input = text(RED, msg);
  if (from === 'csv') {
    yield* csvRows(input);
    return;
  }
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (from === 'lines') yield line;
      else if (line.trim() !== '') yield parse(line);
    }
  } finally {
    // The reader of lines leaves a file open that is not read to its end.
    input.destroy();
  }
}

function text(RED: NodeAPI, { payload, filename }: FeedInput): Readable {
  if (typeof filename === 'string' && filename !== '')
    return createReadStream(resolveModeletFile(RED.settings, filename), 'utf8');
  if (typeof payload === 'string' || Buffer.isBuffer(payload)) return Readable.from([payload]);
  throw new ModeletError(
    'invalid_input',
    'lines and rows need text or a Buffer in msg.payload, or a file in msg.filename',
  );
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    return new ModeletError('bad_request', `a line is not JSON: ${(cause as Error).message}`, { cause });
  }
}
