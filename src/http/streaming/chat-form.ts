/**
 * A result in parts as clients of OpenAI's chat completions expect it. Parts that are text become chunks of one message.
 * Parts that are objects, such as the chunks of a remote model, are sent as they are. A client that does not ask for a
 * stream gets the whole message as one object.
 */
import { wallTime } from '../../core/clock.ts';
import { isObject } from '../../core/objects.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import { tooLarge } from '../../wire/codec/sizes.ts';
import { JSON_UTF8 } from '../answer.ts';
import { jsonable } from '../values/conversion.ts';
import { ChatChoices } from './chat-choices.ts';
import { asksBase64, inBase64 } from './embeddings.ts';
import { jsonOf, SERVER_SENT, type StreamForm } from './stream-form.ts';

/** The fields of a request that its answer repeats, and the form that the client wants. */
export interface ChatRequest {
  readonly requestId: string;
  readonly model: string;
  readonly stream: boolean;
  /** Whether a stream ends with the figures of its message. */
  readonly usage: boolean;
  /** Whether embeddings are written as base64. */
  readonly base64: boolean;
}

interface ChatOptions {
  readonly model?: unknown;
  readonly stream?: unknown;
  readonly stream_options?: { readonly include_usage?: unknown } | null;
}

/** The part of a chunk or of a returned object that this file reads. */
interface Said {
  readonly object?: unknown;
  readonly finish_reason?: unknown;
  readonly usage?: unknown;
}

/** How a message ended, and its figures. */
interface ChatEnd {
  readonly finish_reason: unknown;
  readonly usage?: unknown;
}

const UNNAMED = 'modelet';
const DONE = 'data: [DONE]\n\n';

/** Reads a request's body. As with OpenAI, a client that does not say how it wants the answer gets it whole. */
export function chatRequest(body: unknown, requestId: string): ChatRequest {
  const { model, stream, stream_options: options } = (body ?? {}) as ChatOptions;
  return {
    requestId,
    model: typeof model === 'string' && model !== '' ? model : UNNAMED,
    stream: stream === true,
    usage: options?.include_usage === true,
    base64: asksBase64(body),
  };
}

/** @param maxBytes the longest message that may be gathered */
export function chatForm(request: ChatRequest, maxBytes: number): StreamForm {
  return request.stream ? chunks(request) : wholeMessage(request, maxBytes);
}

function chunks(request: ChatRequest): StreamForm {
  const about = aboutOf(request, 'chat.completion.chunk');
  let texts = 0;
  let objects = 0;
  // As with OpenAI: only a client that asks gets figures, in a chunk without choices, and null in all others.
  const none = request.usage ? { usage: null } : {};
  const chunk = (delta: object, { finish_reason }: ChatEnd): string =>
    event(JSON.stringify({ ...about, choices: [{ index: 0, delta, finish_reason }], ...none }));
  const figures = ({ usage }: ChatEnd): string =>
    request.usage && usage !== undefined ? event(JSON.stringify({ ...about, choices: [], usage })) : '';
  const say = (value: unknown, json: () => string): string => {
    if (isObject(value)) {
      objects += 1;
      return event(json());
    }
    texts += 1;
    const role = texts === 1 ? { role: 'assistant' } : {};
    return chunk({ ...role, content: textOf(value) }, { finish_reason: null });
  };
  return {
    ...SERVER_SENT,
    part: (payload) => say(decodePayload(payload), () => jsonOf(payload)),
    end: (payload) => {
      const value = decodePayload(payload);
      const isAll = texts + objects === 0 && value !== null;
      const last = isAll ? say(value, () => jsonOf(payload)) : '';
      // Objects say themselves how they end.
      const end = endOf(isAll ? null : value);
      return `${last}${objects > 0 ? '' : chunk({}, end) + figures(end)}${DONE}`;
    },
    error: (body) => event(JSON.stringify(body)),
  };
}

function wholeMessage(request: ChatRequest, maxBytes: number): StreamForm {
  const choices = new ChatChoices();
  let parts = 0;
  let figures: unknown;
  const add = (value: unknown): void => {
    parts += 1;
    choices.add(value);
    if (isObject(value)) figures = (value as Said).usage ?? figures;
    if (choices.length > maxBytes) throw tooLarge({ blame: 'modelet_failed', maxBytes }, `${choices.length} bytes`);
  };
  return {
    contentType: { text: JSON_UTF8, bytes: JSON_UTF8 },
    comment: null,
    part: (payload) => {
      add(decodePayload(payload));
      return null;
    },
    end: (payload) => {
      const value = decodePayload(payload);
      if (isObject(value) && (parts === 0 || (value as Said).object !== undefined))
        return request.base64 ? JSON.stringify(jsonable(inBase64(value))) : jsonOf(payload);
      if (parts === 0 && value !== null) add(value);
      const { finish_reason, usage = figures } = (isObject(value) ? value : {}) as Said;
      const answer = { ...aboutOf(request, 'chat.completion'), choices: choices.whole(finish_reason), usage };
      return JSON.stringify(jsonable(answer));
    },
    error: () => null,
  };
}

function aboutOf({ requestId, model }: ChatRequest, object: string): object {
  return { id: `chatcmpl-${requestId}`, object, created: Math.floor(wallTime() / 1000), model };
}

/** Returns why a message ended, and its figures, from what the modelet returned behind its parts. */
function endOf(value: unknown): ChatEnd {
  if (!isObject(value)) return { finish_reason: 'stop' };
  const { finish_reason = 'stop', usage } = value as Said;
  return { finish_reason, ...(usage === undefined ? {} : { usage }) };
}

function event(data: string): string {
  return `data: ${data}\n\n`;
}

function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}
