/** The form of inference requests of the KServe v2 protocol: tensors as JSON and as bytes. */
import { asModeletError, ModeletError } from '../../core/errors.ts';
import type { Outcome, Payload } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import type { Chunks } from '../../wire/codec/chunks.ts';
import { decodePayload, encodePayload } from '../../wire/codec/codec.ts';
import { writeAnswer } from '../answer.ts';
import type { BodyToRead } from '../body.ts';
import { textForClient } from '../client-text.ts';
import { type HttpCall, type Input, type RequestForm, shortest } from '../exchange.ts';
import { codingOf, JSON_TYPE, parseTimeout } from '../request-head.ts';
import type { RowsOutcome } from '../rows/rows.ts';
import { inferAnswer, jsonAnswer } from './infer-answer.ts';
import { type InferRequest, inferRequestOf, readInferRequest } from './infer-request.ts';
import { promisedOutputs } from './metadata.ts';
import { resultOfRows, rowsOf } from './tensor-rows.ts';

const JSON_LENGTH = 'Inference-Header-Content-Length';

export class InferForm implements RequestForm {
  readonly #model: string;
  readonly #call: HttpCall;
  readonly #parsed: unknown;
  /** Length of the JSON text in the body; null: it is the whole body. */
  #jsonLength: number | null = null;
  timeoutMs = 0;

  /** @param parsed the body, if a parser has read it already */
  constructor(model: string, call: HttpCall, parsed: unknown) {
    this.#model = model;
    this.#call = call;
    this.#parsed = parsed;
  }

  head(): BodyToRead | null {
    if (this.#parsed !== undefined) return null;
    const { headers } = this.#call.request;
    this.#jsonLength = jsonLengthOf(headers[JSON_LENGTH.toLowerCase()]);
    const given = headers['content-length'];
    const length = given === undefined ? null : Number(given);
    return { coding: codingOf(headers['content-encoding']), length, most: this.#most };
  }

  tooLarge(): ModeletError {
    const { maxJson } = this.#call.endpoint.limits;
    const limit =
      this.#most === maxJson.bytes ? maxJson.name : `the ${this.#most} bytes that the runtime takes as a payload`;
    return new ModeletError('payload_too_large', `the body is larger than ${limit}`);
  }

  input(body: Chunks): Input {
    const { endpoint, request } = this.#call;
    const asked = this.#parsed === undefined ? this.#read(body.bytes) : inferRequestOf(this.#parsed, body.bytes);
    this.timeoutMs = shortest(parseTimeout(request.headers['timeout']), asked.timeoutMs);
    const { maxBytes } = endpoint.limits;
    const encoded = (input: InferRequest['input']): Payload =>
      encodePayload(input, { blame: 'invalid_input', maxBytes });
    const { first, last, mostRows } = endpoint.runtime.described();
    const { sequence } = asked;
    if (sequence && endpoint.spec.key === null)
      throw new ModeletError(
        'bad_request',
        'sequences are not supported, because the stages of the model have no keys',
      );
    // A request of a sequence is one step of it.
    const rows = sequence ? null : rowsOf(asked.input, first?.inputs ?? [], mostRows);
    if (!rows) {
      const onSettled = ({ outcome }: Settlement): void => this.#settled(asked, outcome, decodePayload);
      return { payload: encoded(asked.input), sequence, onSettled };
    }
    const result = (outcomes: readonly Outcome<Payload>[]): unknown => {
      const decoded = outcomes.flatMap((outcome) => (outcome.ok ? [decodePayload(outcome.value)] : []));
      return resultOfRows(decoded, last?.outputs);
    };
    const onSettled = (outcome: RowsOutcome): void => this.#settled(asked, outcome, result);
    return { rows: rows.map(encoded), allOrNone: true, window: Number.POSITIVE_INFINITY, onSettled };
  }

  refuse({ code, message, statusCode: status, retryAfterSeconds }: ModeletError): void {
    const { endpoint, response, requestId } = this.#call;
    const head = { status, requestId, answer: endpoint.direct, retryAfterSeconds };
    writeAnswer(response, head, jsonAnswer({ error: textForClient(code, message) }));
  }

  /** Largest body. JSON is parsed in this process, so it has its own limit. */
  get #most(): number {
    const { maxBytes, maxJson } = this.#call.endpoint.limits;
    return this.#jsonLength === null ? Math.min(maxBytes, maxJson.bytes) : maxBytes;
  }

  /** @throws ModeletError if the body is no inference request */
  #read(body: Buffer): InferRequest {
    const { maxJson } = this.#call.endpoint.limits;
    const jsonLength = this.#jsonLength;
    if (jsonLength !== null && jsonLength > body.length)
      throw new ModeletError('bad_request', `${JSON_LENGTH} is larger than the body`);
    if ((jsonLength ?? 0) > maxJson.bytes)
      throw new ModeletError('payload_too_large', `the JSON is larger than ${maxJson.name}`);
    return readInferRequest(body, jsonLength);
  }

  #settled<Value>(asked: InferRequest, outcome: Outcome<Value>, read: (value: Value) => unknown): void {
    if (!outcome.ok) {
      this.refuse(outcome.error);
      return;
    }
    try {
      this.#answer(asked, read(outcome.value));
    } catch (thrown) {
      const error = asModeletError(thrown, 'modelet_failed');
      const { runtime, stageNames } = this.#call.endpoint;
      // The runtime counts the request as answered. Only the client is to blame for an output that does not exist.
      if (error.code !== 'bad_request') runtime.unwritten(error, stageNames.at(-1), this.#call.requestId);
      this.refuse(error);
    }
  }

  #answer(asked: InferRequest, result: unknown): void {
    const { endpoint, response, requestId } = this.#call;
    const { direct, runtime } = endpoint;
    const { body, jsonLength } = inferAnswer(this.#model, asked, result, promisedOutputs(runtime.described().last));
    const more = jsonLength === null ? [] : [JSON_LENGTH, String(jsonLength)];
    const answer = { ...direct, headers: [...direct.headers, ...more] };
    const contentType = jsonLength === null ? JSON_TYPE : 'application/octet-stream';
    writeAnswer(response, { status: 200, requestId, answer }, { contentType, body, nosniff: true });
  }
}

/** @throws ModeletError `bad_request` */
function jsonLengthOf(header: string | string[] | undefined): number | null {
  if (header === undefined) return null;
  if (typeof header === 'string' && /^\d{1,15}$/.test(header)) return Number(header);
  throw new ModeletError('bad_request', `${JSON_LENGTH} must be a number of bytes`);
}
