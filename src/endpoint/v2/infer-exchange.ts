/**
 * One inference request of the KServe v2 protocol, from its headers to its answer. The states are those of an exchange of
 * the endpoint's own: see exchange.ts.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import type { Outcome, Payload } from '../../core/model.ts';
import { decodePayload, encodePayload } from '../../wire/codec/codec.ts';
import { textForClient } from '../client-text.ts';
import { JSON_TYPE } from '../media-type.ts';
import { type BodyReadEvents, readBody } from '../read-body.ts';
import { codingOf, parseTimeout } from '../request-head.ts';
import { REQUEST_ID, requestIdOf } from '../request-id.ts';
import { writeAnswer } from '../response-writer.ts';
import { Rows } from '../rows.ts';
import type { ServedEndpoint } from '../served-endpoint.ts';
import { inferAnswer, jsonAnswer } from './infer-answer.ts';
import { type InferRequest, inferRequestOf, readInferRequest } from './infer-request.ts';
import { promisedOutputs } from './metadata.ts';
import { resultOfRows, rowsOf } from './tensor-rows.ts';

type ExchangeState =
  | { readonly tag: 'reading'; readonly stop: () => void }
  | { readonly tag: 'submitted'; abandon(error: ModeletError): void }
  | { readonly tag: 'ended' };

const ENDED: ExchangeState = { tag: 'ended' };
const JSON_LENGTH = 'Inference-Header-Content-Length';

export class InferExchange implements BodyReadEvents {
  readonly #model: string;
  readonly #endpoint: ServedEndpoint;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #requestId: string;
  #state: ExchangeState = { tag: 'reading', stop: () => {} };
  /** Length of the JSON text in the body; null: it is the whole body. */
  #jsonLength: number | null = null;

  constructor(model: string, endpoint: ServedEndpoint, request: IncomingMessage, response: ServerResponse) {
    this.#model = model;
    this.#endpoint = endpoint;
    this.#request = request;
    this.#response = response;
    this.#requestId = requestIdOf(request.headers, response.getHeader(REQUEST_ID));
  }

  /** Starts to read the request. Never throws. */
  begin(): void {
    this.#response.once('close', () => this.#closed());
    const { headers } = this.#request;
    try {
      this.#admit();
      this.#jsonLength = jsonLengthOf(headers[JSON_LENGTH.toLowerCase()]);
      const coding = codingOf(headers['content-encoding']);
      const given = headers['content-length'];
      const length = given === undefined ? null : Number(given);
      if (coding === 'identity' && (length ?? 0) > this.#most) this.onTooLarge();
      else this.#state = { tag: 'reading', stop: readBody(this.#request, { coding, length, most: this.#most }, this) };
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'bad_request'));
    }
  }

  /** Starts with JSON that something else has parsed. Never throws. */
  beginWith(parsed: unknown): void {
    this.#response.once('close', () => this.#closed());
    try {
      this.#admit();
      this.#submit(inferRequestOf(parsed, Buffer.alloc(0)));
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'bad_request'));
    }
  }

  /** A model is its endpoint: the same clients may use it, within the same limits. @throws ModeletError */
  #admit(): void {
    const { clients, spec } = this.#endpoint;
    clients.admit(this.#request.headers, this.#response, spec.path);
  }

  onBody(body: Buffer): void {
    if (this.#state.tag !== 'reading') return;
    try {
      this.#submit(this.#read(body));
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'bad_request'));
    }
  }

  onTooLarge(): void {
    const { maxJson } = this.#endpoint.limits;
    const limit =
      this.#most === maxJson.bytes ? maxJson.name : `the ${this.#most} bytes that the runtime takes as a payload`;
    this.#refuse(new ModeletError('payload_too_large', `the body is larger than ${limit}`));
  }

  onMalformed(error: Error): void {
    this.#refuse(new ModeletError('bad_request', `the body cannot be read: ${error.message}`));
  }

  /** Largest body. JSON is parsed in this process, so it has its own limit. */
  get #most(): number {
    const { maxBytes, maxJson } = this.#endpoint.limits;
    return this.#jsonLength === null ? Math.min(maxBytes, maxJson.bytes) : maxBytes;
  }

  /** @throws ModeletError if the body is no inference request */
  #read(body: Buffer): InferRequest {
    const { maxJson } = this.#endpoint.limits;
    const jsonLength = this.#jsonLength;
    if (jsonLength !== null && jsonLength > body.length)
      throw new ModeletError('bad_request', `${JSON_LENGTH} is larger than the body`);
    if ((jsonLength ?? 0) > maxJson.bytes)
      throw new ModeletError('payload_too_large', `the JSON is larger than ${maxJson.name}`);
    return readInferRequest(body, jsonLength);
  }

  /** @throws ModeletError if the runtime refuses the request */
  #submit(asked: InferRequest): void {
    const { runtime, limits } = this.#endpoint;
    const limitsMs = [parseTimeout(this.#request.headers['timeout']), asked.timeoutMs, limits.timeoutMs];
    const deadline = runtime.deadlineFor(shortest(limitsMs));
    const shared = { requestId: this.#requestId, deadline, http: this.#request };
    const encoded = (input: InferRequest['input']): Payload =>
      encodePayload(input, { blame: 'invalid_input', maxBytes: limits.maxBytes });
    const { first, last, mostRows } = runtime.described();
    const rows = rowsOf(asked.input, first?.inputs ?? [], mostRows);
    if (rows) {
      const all = new Rows(runtime, {
        ...{ ...shared, payloads: rows.map(encoded) },
        onSettled: (outcome) =>
          this.#settled(asked, outcome, (values) =>
            resultOfRows(
              values.map((value) => decodePayload(value)),
              last?.outputs,
            ),
          ),
      });
      this.#state = { tag: 'submitted', abandon: (error) => all.abandon(error) };
      return;
    }
    const id = runtime.submit({
      ...{ ...shared, payload: encoded(asked.input) },
      onSettled: ({ outcome }) => this.#settled(asked, outcome, decodePayload),
    });
    this.#state = { tag: 'submitted', abandon: (error) => runtime.abandon(id, error) };
  }

  #settled<Value>(asked: InferRequest, outcome: Outcome<Value>, read: (value: Value) => unknown): void {
    if (this.#state.tag !== 'submitted') return;
    this.#state = ENDED;
    try {
      if (!outcome.ok) throw outcome.error;
      this.#answer(asked, read(outcome.value));
    } catch (thrown) {
      this.#answerError(asModeletError(thrown, 'modelet_failed'));
    }
  }

  #answer(asked: InferRequest, result: unknown): void {
    const { direct, runtime } = this.#endpoint;
    const { body, jsonLength } = inferAnswer(this.#model, asked, result, promisedOutputs(runtime.described().last));
    const more = jsonLength === null ? [] : [JSON_LENGTH, String(jsonLength)];
    const answer = { ...direct, headers: [...direct.headers, ...more] };
    const contentType = jsonLength === null ? JSON_TYPE : 'application/octet-stream';
    const content = { contentType, body, nosniff: true };
    writeAnswer(this.#response, { status: 200, requestId: this.#requestId, answer }, content);
  }

  /** Ends a request that the runtime does not get. */
  #refuse(error: ModeletError): void {
    if (this.#state.tag !== 'reading') return;
    this.#state = ENDED;
    // The runtime has counted what it has refused itself.
    this.#endpoint.runtime.refused(error, this.#requestId);
    this.#answerError(error);
  }

  #answerError(error: ModeletError): void {
    const { code, message, statusCode: status, retryAfterSeconds } = error;
    const head = { status, requestId: this.#requestId, answer: this.#endpoint.direct, retryAfterSeconds };
    writeAnswer(this.#response, head, jsonAnswer({ error: textForClient(code, message) }));
  }

  /** The client has its answer, or has gone. */
  #closed(): void {
    const state = this.#state;
    this.#state = ENDED;
    if (state.tag === 'reading') state.stop();
    if (state.tag !== 'submitted') return;
    state.abandon(new ModeletError('cancelled', 'the HTTP client went away'));
  }
}

/** Returns the shortest of several time limits; 0, for none, if there is none. */
function shortest(limits: readonly number[]): number {
  const set = limits.filter((ms) => ms > 0);
  return set.length === 0 ? 0 : Math.min(...set);
}

/** @throws ModeletError `bad_request` */
function jsonLengthOf(header: string | string[] | undefined): number | null {
  if (header === undefined) return null;
  if (typeof header === 'string' && /^\d{1,15}$/.test(header)) return Number(header);
  throw new ModeletError('bad_request', `${JSON_LENGTH} must be a number of bytes`);
}
