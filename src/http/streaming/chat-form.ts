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
  readonly choices?: readonly { readonly delta?: { readonly content?: unknown }; readonly finish_reason?: unknown }[];
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
const STOP: ChatEnd = { finish_reason: 'stop' };

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
  let content = '';
  let parts = 0;
  let end = STOP;
  const add = (value: unknown): void => {
    parts += 1;
    if (isObject(value)) {
      const { choices, usage } = value as Said;
      const [choice] = Array.isArray(choices) ? (choices as NonNullable<Said['choices']>) : [];
      const { finish_reason = null } = choice ?? {};
      if (finish_reason !== null) end = { ...end, finish_reason };
      if (isObject(usage)) end = { ...end, usage };
      content += textOf(choice?.delta?.content ?? null);
    } else content += textOf(value);
    if (content.length > maxBytes) throw tooLarge({ blame: 'modelet_failed', maxBytes }, `${content.length} bytes`);
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
      else if (isObject(value)) end = endOf(value, end);
      const { finish_reason, ...usage } = end;
      const message = { role: 'assistant', content };
      const choices = [{ index: 0, message, finish_reason }];
      return JSON.stringify({ ...aboutOf(request, 'chat.completion'), choices, ...usage });
    },
    error: () => null,
  };
}

function aboutOf({ requestId, model }: ChatRequest, object: string): object {
  return { id: `chatcmpl-${requestId}`, object, created: Math.floor(wallTime() / 1000), model };
}

/** Returns why a message ended, and its figures, from what the modelet returned behind its parts. */
function endOf(value: unknown, known: ChatEnd = STOP): ChatEnd {
  if (!isObject(value)) return known;
  const { finish_reason = known.finish_reason, usage = known.usage } = value as Said;
  return { finish_reason, ...(usage === undefined ? {} : { usage }) };
}

function event(data: string): string {
  return `data: ${data}\n\n`;
}

function textOf(value: unknown): string {
  return value === null || value === undefined ? '' : String(value);
}
