/**
 * One request to a compiled endpoint, from its headers to its answer. It never becomes a message.
 *
 *   reading    the body arrives                       -> submitted | ended
 *   submitted  the runtime has the request            -> ended
 *   ended      it is answered, or its client is gone
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { StreamSpec } from '../core/endpoints.ts';
import { asModeletError, isLasting, ModeletError } from '../core/errors.ts';
import type { Payload, RequestNumber } from '../core/model.ts';
import type { Settlement } from '../core/routes/route.ts';
import { CODEC, encodePayload } from '../wire/codec/codec.ts';
import { tooLarge } from '../wire/codec/payload-limits.ts';
import { bodyOfPayload, bodyOfValue } from './answer.ts';
import { checkMediaType, checkMsgpackCoding, decodeText } from './body.ts';
import { errorBody } from './client-text.ts';
import { type AnswerForm, answerForm } from './media-type.ts';
import { type BodyReadEvents, readBody } from './read-body.ts';
import { parseTimeout, type RequestHead, readHead } from './request-head.ts';
import { REQUEST_ID, requestIdOf } from './request-id.ts';
import { writeAnswer } from './response-writer.ts';
import type { ServedEndpoint } from './served-endpoint.ts';
import { chatForm, chatRequestOf } from './streaming/chat-form.ts';
import { asksBase64In, isForEmbeddings, payloadInBase64 } from './streaming/embeddings.ts';
import { ResultStream, whenRead } from './streaming/result-stream.ts';
import { formOf, streamForm } from './streaming/stream-form.ts';
import { decodeMsgpack } from './values/msgpack.ts';

type ExchangeState =
  | { readonly tag: 'reading'; readonly stop: () => void }
  /** `payload`: kept only for an answer that repeats it. */
  | { readonly tag: 'submitted'; readonly id: RequestNumber; readonly payload: Payload | null }
  | { readonly tag: 'ended' };

/**
 * The part that finds an error. In a flow, Node-RED's body parsers answer errors of the body themselves; errors of the
 * request reach the pipeline first, and so the flow's own answer for errors.
 */
type Finder = 'parser' | 'pipeline';

const ENDED: ExchangeState = { tag: 'ended' };
const IDLE: ExchangeState = { tag: 'reading', stop: () => {} };
const EMPTY_TEXT: Payload = { codec: CODEC.json, bytes: Buffer.from('""') };
const EMPTY_BYTES: Payload = { codec: CODEC.bytes, bytes: Buffer.alloc(0) };
const EMPTY_OBJECT: Payload = { codec: CODEC.json, bytes: Buffer.from('{}') };

export class Exchange implements BodyReadEvents {
  readonly #endpoint: ServedEndpoint;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #requestId: string;
  #state: ExchangeState = IDLE;
  #head: RequestHead | null = null;
  /** Time limit that the client asks for, in ms; 0: none. null: the headers have not been checked yet. */
  #ownTimeoutMs: number | null = null;
  /** null: the answer is written in one go. */
  #stream: ResultStream | null = null;
  /** Whether the client wants embeddings as base64. */
  #base64 = false;

  constructor(endpoint: ServedEndpoint, request: IncomingMessage, response: ServerResponse) {
    this.#endpoint = endpoint;
    this.#request = request;
    this.#response = response;
    this.#requestId = requestIdOf(request.headers, response.getHeader(REQUEST_ID));
  }

  /** Starts to read the request. Never throws. */
  begin(): void {
    this.#response.on('close', () => this.#closed());
    try {
      const { clients, spec } = this.#endpoint;
      clients.admit(this.#request.headers, this.#response, spec.path);
      this.#head = readHead(this.#request.headers);
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'bad_request'), 'parser');
      return;
    }
    const { type, length, coding } = this.#head;
    const most = this.#mostBytes(type.kind);
    // The headers alone may be enough to refuse the body.
    if (length !== null && length > 0 && coding === 'identity') {
      if (length > most) {
        this.onTooLarge();
        return;
      }
      if (!this.#isAcceptable()) return;
    }
    this.#state = { tag: 'reading', stop: readBody(this.#request, { coding, length, most }, this) };
  }

  onBody(body: Buffer): void {
    if (this.#state.tag !== 'reading') return;
    const head = this.#head as RequestHead;
    const empty = body.length === 0 ? emptyPayload(head) : null;
    // A body that is empty is of no type, unless its parser makes an object of it.
    if ((!empty || empty === EMPTY_OBJECT) && !this.#isAcceptable()) return;
    try {
      this.#submit(empty ?? this.#payload(body));
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'invalid_input'), 'pipeline');
    }
  }

  onTooLarge(): void {
    const { maxJson, maxBytes } = this.#endpoint.limits;
    const { kind } = (this.#head as RequestHead).type;
    if (kind === 'json') {
      const text = `the body is larger than ${maxJson.name}`;
      this.#refuse(new ModeletError('payload_too_large', text), 'parser');
    } else if (kind === 'msgpack') {
      this.#refuse(new ModeletError('payload_too_large', 'the body is larger than the runtime takes'), 'parser');
    } else if (this.#isAcceptable()) {
      this.#refuse(tooLarge({ blame: 'invalid_input', maxBytes }, 'too large'), 'pipeline');
    }
  }

  onMalformed(error: Error): void {
    this.#refuse(new ModeletError('bad_request', `the body cannot be read: ${error.message}`), 'parser');
  }

  #mostBytes(kind: RequestHead['type']['kind']): number {
    const { maxJson, maxBytes } = this.#endpoint.limits;
    return kind === 'json' ? maxJson.bytes : maxBytes;
  }

  /** Answers with the reason if the request cannot be accepted as its headers are. */
  #isAcceptable(): boolean {
    if (this.#ownTimeoutMs !== null) return true;
    const { headers } = this.#request;
    const { type, contentType } = this.#head as RequestHead;
    try {
      const timeoutMs = parseTimeout(headers['timeout']);
      checkMediaType(contentType, this.#endpoint.spec.mediaTypes);
      if (type.kind === 'msgpack') checkMsgpackCoding(headers['content-encoding']);
      this.#ownTimeoutMs = timeoutMs;
      return true;
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'bad_request'), 'pipeline');
      return false;
    }
  }

  /** @throws ModeletError `bad_request`, `payload_too_large` */
  #payload(body: Buffer): Payload {
    const { maxBytes } = this.#endpoint.limits;
    const { type } = this.#head as RequestHead;
    switch (type.kind) {
      case 'json':
      case 'json value':
        if (body.length > maxBytes) throw tooLarge({ blame: 'invalid_input', maxBytes }, `${body.length} bytes`);
        return { codec: CODEC.jsonText, bytes: body };
      case 'bytes':
        return { codec: CODEC.bytes, bytes: body };
      case 'msgpack':
        return encodePayload(decodeMsgpack(body), { blame: 'invalid_input', maxBytes });
      default:
        return encodePayload(decodeText(body, type), { blame: 'invalid_input', maxBytes });
    }
  }

  /** @throws ModeletError if the runtime refuses the request */
  #submit(payload: Payload): void {
    const { runtime, limits, spec } = this.#endpoint;
    const own = this.#ownTimeoutMs ?? parseTimeout(this.#request.headers['timeout']);
    const timeoutMs = own > 0 && (limits.timeoutMs === 0 || own < limits.timeoutMs) ? own : limits.timeoutMs;
    this.#base64 = this.#head?.type.kind === 'json' && isForEmbeddings(spec.path) && asksBase64In(payload);
    if (spec.parts) this.#stream = this.#openStream(spec.parts.stream, payload);
    const id = runtime.submit({
      requestId: this.#requestId,
      payload,
      deadline: runtime.deadlineFor(timeoutMs),
      http: this.#request,
      onPart: spec.parts ? (part, taken) => this.#part(part, taken) : undefined,
      onSettled: (settlement) => this.#settled(settlement),
    });
    this.#state = { tag: 'submitted', id, payload: spec.errorPayload === 'keep' ? payload : null };
  }

  /** @param stream null: the client and the headers of the answer choose the form */
  #openStream(stream: StreamSpec | null, payload: Payload): ResultStream {
    const { answer, limits } = this.#endpoint;
    const requestId = this.#requestId;
    const json = this.#head?.type.kind === 'json' ? payload : null;
    const form = stream
      ? formOf(stream, () => chatForm(chatRequestOf(json, requestId), limits.maxBytes))
      : streamForm(this.#request.headers.accept, answer.contentType?.bytes ?? null);
    return new ResultStream(this.#response, { requestId, answer, form, heartbeatMs: stream?.heartbeatMs ?? 0 });
  }

  #part(part: Payload, taken: () => void): void {
    const state = this.#state;
    if (state.tag !== 'submitted') return;
    try {
      this.#stream?.part(part);
    } catch (thrown) {
      this.#endpoint.runtime.abandon(state.id, asModeletError(thrown, 'modelet_failed'));
      return;
    }
    // What a client does not read stays in memory, so the modelet makes no further parts until it reads.
    whenRead(this.#response, taken);
  }

  #settled({ outcome, timings, gathered }: Settlement): void {
    const state = this.#state;
    if (state.tag !== 'submitted') return;
    this.#state = ENDED;
    if (outcome.ok) {
      this.#answer(outcome.value);
      return;
    }
    const { error } = outcome;
    const { stageNames } = this.#endpoint;
    if (error.code === 'bad_request' && this.#head?.type.kind === 'json') {
      // In a flow, no stage has seen the request yet.
      this.#answerError(new ModeletError('bad_request', error.message), 'parser', null);
      return;
    }
    // A gather is no stage, and neither is one of its branches to blame if they were late.
    if (gathered?.failed === undefined || gathered.failed === null)
      error.stage ??= stageNames[timings.length] ?? stageNames[0];
    this.#answerError(error, 'pipeline', outcome.input ?? state.payload);
  }

  /** Ends a request that the runtime does not get. */
  #refuse(error: ModeletError, finder: Finder): void {
    if (this.#state.tag !== 'reading') return;
    this.#state = ENDED;
    // The runtime has counted what it has refused itself.
    this.#endpoint.runtime.refused(error, this.#requestId);
    if (finder === 'pipeline') error.stage ??= this.#endpoint.stageNames[0];
    this.#answerError(error, finder, null);
  }

  #answer(value: Payload): void {
    const { answer } = this.#endpoint;
    try {
      if (this.#stream) {
        this.#stream.end(value);
        return;
      }
      const typed = answer.contentType !== null;
      const body = this.#base64
        ? bodyOfValue(payloadInBase64(value), this.#form, typed)
        : bodyOfPayload(value, this.#form, typed);
      writeAnswer(this.#response, { status: answer.statusCode ?? 200, requestId: this.#requestId, answer }, body);
    } catch (thrown) {
      const error = asModeletError(thrown, 'modelet_failed');
      // Otherwise the HTTP response node would find it, behind the pipeline.
      const isOurs = error.code === 'protocol_error' || this.#stream !== null;
      if (isOurs) error.stage ??= this.#endpoint.stageNames.at(-1);
      this.#answerError(error, isOurs ? 'pipeline' : 'parser', null);
    }
  }

  /** @param input the value that the failing stage got, for an answer that repeats it */
  #answerError(error: ModeletError, finder: Finder, input: Payload | null): void {
    const { failure, direct, spec } = this.#endpoint;
    const { code, message, stage, details, statusCode, retryAfterSeconds } = error;
    const answer = (finder === 'pipeline' ? failure : null) ?? direct;
    const content = errorBody({ code, message, stage, requestId: this.#requestId, details });
    if (this.#stream?.hasBegun) {
      this.#stream.fail(content);
      return;
    }
    const typed = answer.contentType !== null;
    const keeps = answer === failure && spec.errorPayload === 'keep' && input !== null;
    const body = keeps ? keptBody(input, this.#form, typed) : bodyOfValue(content, this.#form, typed);
    const status = answer.statusCode ?? statusCode;
    const head = { status, requestId: this.#requestId, answer, retryAfterSeconds, isLasting: isLasting(code) };
    writeAnswer(this.#response, head, body);
  }

  get #form(): AnswerForm {
    const { accept } = this.#request.headers;
    return answerForm(accept, this.#head?.type.media ?? null);
  }

  /** The client has its answer, or has gone. */
  #closed(): void {
    const state = this.#state;
    this.#state = ENDED;
    if (state.tag === 'reading') state.stop();
    if (state.tag !== 'submitted') return;
    this.#endpoint.runtime.abandon(state.id, new ModeletError('cancelled', 'the HTTP client went away'));
  }
}

/** Returns the payload that Node-RED's body parsers make of an empty body. */
function emptyPayload({ type: { kind }, announced }: RequestHead): Payload {
  if (announced && (kind === 'json' || kind === 'form')) return EMPTY_OBJECT;
  return kind === 'bytes' ? EMPTY_BYTES : EMPTY_TEXT;
}

/** Returns the body of an answer that repeats what a failed stage got. */
function keptBody(input: Payload, form: AnswerForm, typed: boolean): ReturnType<typeof bodyOfPayload> {
  try {
    return bodyOfPayload(input, form, typed);
  } catch {
    // A body that is not JSON is text.
    return bodyOfValue(Buffer.from(input.bytes).toString(), form, typed);
  }
}
