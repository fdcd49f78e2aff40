/** The form of a compiled endpoint's own requests: bodies, answers and errors are those of the flow that it stands for. */
import type { StreamSpec } from '../core/endpoints.ts';
import { asModeletError, isLasting, ModeletError } from '../core/errors.ts';
import type { Payload } from '../core/model.ts';
import type { Settlement } from '../core/routes/route.ts';
import { type Chunks, payloadOf } from '../wire/codec/chunks.ts';
import { CODEC, decodePayload, encodePayload } from '../wire/codec/codec.ts';
import { tooLarge } from '../wire/codec/sizes.ts';
import { bodyOfPayload, bodyOfValue, writeAnswer } from './answer.ts';
import { type BodyToRead, checkMediaType, checkMsgpackCoding, decodeText } from './body.ts';
import { errorBody } from './client-text.ts';
import type { HttpCall, Input, RequestForm } from './exchange.ts';
import { type AnswerForm, answerForm, parseTimeout, type RequestHead, readHead } from './request-head.ts';
import { RowAnswer, wantsLines } from './rows/row-answer.ts';
import { readRows, rowFormatOf } from './rows/row-input.ts';
import type { RowsOutcome } from './rows/rows.ts';
import { nameStage } from './served-endpoint.ts';
import { chatForm, chatRequest } from './streaming/chat-form.ts';
import { asksBase64In, bodyOrNull, inBase64 } from './streaming/embeddings.ts';
import { ResultStream } from './streaming/result-stream.ts';
import { formOf, streamForm } from './streaming/stream-form.ts';
import { decodeMsgpack } from './values/msgpack.ts';

/**
 * The part that finds an error. In a flow, Node-RED's body parsers answer errors of the body themselves; errors of the
 * request reach the pipeline first, and so the flow's own answer for errors.
 */
type Finder = 'parser' | 'pipeline';

const EMPTY_TEXT: Payload = { codec: CODEC.json, bytes: Buffer.from('""') };
const EMPTY_BYTES: Payload = { codec: CODEC.bytes, bytes: Buffer.alloc(0) };
const EMPTY_OBJECT: Payload = { codec: CODEC.json, bytes: Buffer.from('{}') };

export class OwnForm implements RequestForm {
  readonly #call: HttpCall;
  #head: RequestHead | null = null;
  #finder: Finder = 'parser';
  /** null: the headers have not been checked yet. */
  #timeoutMs: number | null = null;
  /** null: the answer is written in one go. */
  #stream: ResultStream | null = null;
  /** Whether the client wants embeddings as base64. */
  #base64 = false;

  constructor(call: HttpCall) {
    this.#call = call;
  }

  get timeoutMs(): number {
    return this.#timeoutMs ?? 0;
  }

  head(): BodyToRead {
    const { maxJson, maxBytes } = this.#call.endpoint.limits;
    this.#head = readHead(this.#call.request.headers);
    const { length, coding } = this.#head;
    const most = this.#isParsedHere ? maxJson.bytes : maxBytes;
    if (coding === 'identity' && length !== null && length > 0 && length <= most) this.#accept();
    return { coding, length, most };
  }

  tooLarge(): ModeletError {
    const { maxJson, maxBytes } = this.#call.endpoint.limits;
    const { kind } = (this.#head as RequestHead).type;
    if (this.#isParsedHere) return new ModeletError('payload_too_large', `the body is larger than ${maxJson.name}`);
    if (kind === 'msgpack') return new ModeletError('payload_too_large', 'the body is larger than the runtime takes');
    this.#accept();
    this.#finder = 'pipeline';
    return tooLarge({ blame: 'invalid_input', maxBytes }, 'too large');
  }

  input(body: Chunks): Input {
    const { spec, isForEmbeddings } = this.#call.endpoint;
    const head = this.#head as RequestHead;
    this.#finder = 'pipeline';
    const rows = this.#rows(body);
    if (rows) return rows;
    const empty = body.length === 0 ? emptyPayload(head) : null;
    // A body that is empty is of no type, unless its parser makes an object of it.
    if (!empty || empty === EMPTY_OBJECT) this.#accept();
    const payload = empty ?? this.#payload(body);
    this.#timeoutMs ??= parseTimeout(this.#call.request.headers['timeout']);
    this.#base64 = isForEmbeddings && head.type.kind === 'json' && asksBase64In(payload);
    const stream = spec.parts ? this.#openStream(spec.parts.stream, payload) : null;
    this.#stream = stream;
    const kept = spec.errorPayload === 'keep' ? payload : null;
    return {
      payload,
      onPart: stream ? (part) => stream.part(part) : undefined,
      onSettled: (settlement: Settlement) => this.#settled(settlement, kept),
    };
  }

  /** Returns the rows of a body, each of which is an item; null: the body is one item. */
  #rows(body: Chunks): Input | null {
    const { endpoint, request } = this.#call;
    const { spec, limits, runtime } = endpoint;
    const { type, contentType } = this.#head as RequestHead;
    const format = spec.maxRows === 0 ? null : rowFormatOf(contentType);
    if (format === null) return null;
    this.#accept();
    const { capacity, running } = runtime.described();
    const most = Math.min(spec.maxRows, capacity);
    const rows = readRows(body.bytes, { format, type, most, maxBytes: limits.maxBytes });
    if (rows === null) return null;
    const inLines = wantsLines(request.headers.accept, spec.parts !== null);
    const refuse = (error: ModeletError): void => this.refuse(error);
    const answer = new RowAnswer({ ...this.#call, form: this.#answerForm, inLines, refuse });
    return {
      ...{ rows, allOrNone: false, window: running, pace: answer.pace },
      onRow: (row, settlement) => answer.onRow(row, settlement),
      onSettled: (outcome: RowsOutcome) => answer.onSettled(outcome),
    };
  }

  refuse(error: ModeletError): void {
    if (this.#finder === 'pipeline') error.stage ??= this.#call.endpoint.stageNames[0];
    this.#answerError(error, null);
  }

  /** Whether the body has the limit of JSON, because Node-RED's parser or this process parses it. */
  get #isParsedHere(): boolean {
    const { type, contentType } = this.#head as RequestHead;
    if (type.kind === 'json') return true;
    return this.#call.endpoint.spec.maxRows > 0 && ['lines', 'csv'].includes(rowFormatOf(contentType) ?? '');
  }

  /** @throws ModeletError if the request cannot be accepted as its headers are */
  #accept(): void {
    if (this.#timeoutMs !== null) return;
    const { headers } = this.#call.request;
    const { type, contentType } = this.#head as RequestHead;
    try {
      const timeoutMs = parseTimeout(headers['timeout']);
      checkMediaType(contentType, this.#call.endpoint.spec.mediaTypes);
      if (type.kind === 'msgpack') checkMsgpackCoding(headers['content-encoding']);
      this.#timeoutMs = timeoutMs;
    } catch (thrown) {
      this.#finder = 'pipeline';
      throw thrown;
    }
  }

  /** @throws ModeletError `bad_request`, `payload_too_large` */
  #payload(body: Chunks): Payload {
    const { maxBytes } = this.#call.endpoint.limits;
    const { type } = this.#head as RequestHead;
    switch (type.kind) {
      case 'json':
      case 'json value':
        if (body.length > maxBytes) throw tooLarge({ blame: 'invalid_input', maxBytes }, `${body.length} bytes`);
        return payloadOf(CODEC.jsonText, body);
      case 'bytes':
        return payloadOf(CODEC.bytes, body);
      case 'msgpack':
        return encodePayload(decodeMsgpack(body.bytes), { blame: 'invalid_input', maxBytes });
      default:
        return encodePayload(decodeText(body.bytes, type), { blame: 'invalid_input', maxBytes });
    }
  }

  /** @param stream null: the client and the headers of the answer choose the form */
  #openStream(stream: StreamSpec | null, payload: Payload): ResultStream {
    const { endpoint, request, response, requestId } = this.#call;
    const { answer, limits } = endpoint;
    // JSON is the only form that clients of a chat know.
    const chat = (): unknown => (this.#head?.type.kind === 'json' ? bodyOrNull(payload) : null);
    const form = stream
      ? formOf(stream, () => chatForm(chatRequest(chat(), requestId), limits.maxBytes))
      : streamForm(request.headers.accept, answer.contentType?.bytes ?? null);
    return new ResultStream(response, { requestId, answer, form, heartbeatMs: stream?.heartbeatMs ?? 0 });
  }

  /** @param kept the input, for an answer that repeats it */
  #settled(settlement: Settlement, kept: Payload | null): void {
    const { outcome } = settlement;
    if (outcome.ok) {
      this.#answer(outcome.value);
      return;
    }
    const { error } = outcome;
    if (error.code === 'bad_request' && this.#head?.type.kind === 'json') {
      // In a flow, no stage has seen the request yet.
      this.#finder = 'parser';
      this.#answerError(new ModeletError('bad_request', error.message), null);
      return;
    }
    nameStage(this.#call.endpoint.stageNames, settlement);
    this.#answerError(error, outcome.input ?? kept);
  }

  #answer(value: Payload): void {
    const { endpoint, response, requestId } = this.#call;
    const { answer } = endpoint;
    try {
      if (this.#stream) {
        this.#stream.end(value);
        return;
      }
      const typed = answer.contentType !== null;
      const body = this.#base64
        ? bodyOfValue(inBase64(decodePayload(value)), this.#answerForm, typed)
        : bodyOfPayload(value, this.#answerForm, typed);
      writeAnswer(response, { status: answer.statusCode ?? 200, requestId, answer }, body);
    } catch (thrown) {
      const error = asModeletError(thrown, 'modelet_failed');
      // Otherwise the HTTP response node would find it, behind the pipeline.
      const isOurs = error.code === 'protocol_error' || this.#stream !== null;
      if (isOurs) error.stage ??= endpoint.stageNames.at(-1);
      else this.#finder = 'parser';
      endpoint.runtime.unwritten(error, endpoint.stageNames.at(-1), requestId);
      this.#answerError(error, null);
    }
  }

  /** @param input the value that the failing stage got, for an answer that repeats it */
  #answerError(error: ModeletError, input: Payload | null): void {
    const { endpoint, response, requestId } = this.#call;
    const { failure, direct, spec } = endpoint;
    const { code, statusCode, retryAfterSeconds } = error;
    const answer = (this.#finder === 'pipeline' ? failure : null) ?? direct;
    const content = errorBody(error, requestId);
    if (this.#stream?.hasBegun) {
      this.#stream.fail(content);
      return;
    }
    const typed = answer.contentType !== null;
    const keeps = answer === failure && spec.errorPayload === 'keep' && input !== null;
    const body = keeps ? keptBody(input, this.#answerForm, typed) : bodyOfValue(content, this.#answerForm, typed);
    const status = answer.statusCode ?? statusCode;
    writeAnswer(response, { status, requestId, answer, retryAfterSeconds, isLasting: isLasting(code) }, body);
  }

  get #answerForm(): AnswerForm {
    return answerForm(this.#call.request.headers.accept, this.#head?.type.media ?? null);
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
