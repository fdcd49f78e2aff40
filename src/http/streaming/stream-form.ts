/**
 * How a result in parts is written while it is made:
 *
 *   events  server-sent events: a message for each part, then `done`, or `error`
 *   lines   JSON lines: `{"part": ...}` for each part, then `{"done": ...}`, or `{"error": {...}}`
 *   plain   the parts alone, one behind the other
 *   chat    what a client of OpenAI's API expects; see chat-form.ts
 *
 * Pure.
 */
import type { StreamSpec } from '../../core/endpoints.ts';
import type { Payload } from '../../core/model.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import { bodyOfPayload } from '../answer.ts';
import { JSON_TYPE, mediaTypeOf, typesNamed } from '../request-head.ts';
import type { PreparedAnswer } from '../served-endpoint.ts';

export type Chunk = string | Buffer;

export interface StreamForm {
  /** Types of an answer that begins with text or bytes, if its headers set none. */
  readonly contentType: NonNullable<PreparedAnswer['contentType']>;
  /** A comment that clients ignore; null if the form has none. */
  readonly comment: string | null;
  /**
   * Returns null for a part that is written with the end.
   * @throws ModeletError `modelet_failed` for a part that the form cannot hold
   */
  part(payload: Payload): Chunk | null;
  /** @throws ModeletError `modelet_failed` */
  end(value: Payload): Chunk;
  /** Returns null if the form cannot say an error. The answer is then cut off, which clients notice. */
  error(body: object): Chunk | null;
}

export const EVENTS_TYPE = 'text/event-stream';
export const LINES_TYPE = 'application/x-ndjson';
const TYPES_OF_LINES: ReadonlySet<string> = new Set([
  LINES_TYPE,
  'application/ndjson',
  'application/jsonl',
  'application/jsonlines',
  'application/json-lines',
]);

/** Whether a type, a result of `mediaTypeOf`, is that of JSON lines. */
export function isLines(type: string): boolean {
  return TYPES_OF_LINES.has(type);
}

/**
 * Chooses the form of a streamed answer.
 * @param accept the caller's header; without a preference it gets events
 * @param own the Content-Type that the answer's headers set; it decides
 */
export function streamForm(accept: string | undefined, own: string | null): StreamForm {
  if (own !== null) {
    const type = mediaTypeOf(own);
    if (type === EVENTS_TYPE) return EVENTS;
    return type !== null && isLines(type) ? linesAs(type) : PLAIN;
  }
  for (const type of typesNamed(accept)) {
    if (type === EVENTS_TYPE) return EVENTS;
    if (isLines(type)) return linesAs(type);
    if (type === JSON_TYPE) return linesAs(LINES_TYPE);
  }
  return EVENTS;
}

/** Returns the form that a stream response node sets. @param chat makes the form for a client of OpenAI's API */
export function formOf({ format, event }: StreamSpec, chat: () => StreamForm): StreamForm {
  switch (format) {
    case 'sse':
      return eventsNamed(event);
    case 'openai':
      return chat();
    case 'jsonl':
    // Each line is a message; see sockets/session.ts.
    case 'websocket':
      return linesAs(LINES_TYPE);
    case 'raw':
      return PLAIN;
  }
}

/** All forms of server-sent events have these. */
export const SERVER_SENT = { contentType: { text: EVENTS_TYPE, bytes: EVENTS_TYPE }, comment: ':\n\n' } as const;

/** @param name the event that each part is; '': the usual one */
function eventsNamed(name: string): StreamForm {
  const start = name === '' ? '' : `event: ${name}\n`;
  return {
    ...SERVER_SENT,
    part: (payload) => `${start}data: ${jsonOf(payload)}\n\n`,
    end: (value) => `event: done\ndata: ${jsonOf(value)}\n\n`,
    error: (body) => `event: error\ndata: ${JSON.stringify(body)}\n\n`,
  };
}

const EVENTS: StreamForm = eventsNamed('');

function linesAs(type: string): StreamForm {
  return {
    contentType: { text: type, bytes: type },
    comment: null,
    part: (payload) => `{"part":${jsonOf(payload)}}\n`,
    end: (value) => `{"done":${jsonOf(value)}}\n`,
    error: (body) => `${JSON.stringify(body)}\n`,
  };
}

export const LINES: StreamForm = linesAs(LINES_TYPE);

const PLAIN: StreamForm = {
  contentType: { text: 'text/plain; charset=utf-8', bytes: 'application/octet-stream' },
  comment: null,
  part: plain,
  end: (value) => (decodePayload(value) === null ? '' : plain(value)),
  error: () => null,
};

function plain(payload: Payload): Chunk {
  const { body, nosniff } = bodyOfPayload(payload, 'usual', true);
  // A client that reads slowly must not keep the frame in memory that the part came in.
  return typeof body === 'string' || nosniff ? body.toString() : Buffer.from(body);
}

/** @throws ModeletError `modelet_failed` */
export function jsonOf(payload: Payload): string {
  const { body, nosniff } = bodyOfPayload(payload, 'json', false);
  return typeof body === 'string' || nosniff ? body.toString() : JSON.stringify(body);
}
