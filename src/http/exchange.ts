/**
 * One request to a compiled endpoint, from its headers to its answer. It never becomes a message. Its form says what its
 * body means and writes its answer: the endpoint's own form, or that of the KServe v2 protocol.
 *
 *   reading    the body arrives                       -> submitted | ended
 *   submitted  the runtime has the request            -> ended
 *   ended      it is answered, or its client is gone
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { asModeletError, ModeletError } from '../core/errors.ts';
import type { Payload } from '../core/model.ts';
import type { Settlement } from '../core/routes/route.ts';
import { Chunks } from '../wire/codec/chunks.ts';
import { type BodyReadEvents, type BodyToRead, readBody } from './body.ts';
import { REQUEST_ID, requestIdOf } from './request-head.ts';
import { type RowItems, Rows, type RowsOutcome } from './rows/rows.ts';
import type { ClientSequence, ServedEndpoint } from './served-endpoint.ts';
import { whenRead } from './streaming/result-stream.ts';

/** A request and its answer. */
export interface HttpCall {
  readonly endpoint: ServedEndpoint;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
}

export type Input = OneItem | RowItems;

interface OneItem {
  readonly payload: Payload;
  readonly sequence?: ClientSequence | undefined;
  /** Writes a part of the result. Absent: the result comes as a whole. @throws ModeletError */
  readonly onPart?: ((part: Payload) => void) | undefined;
  onSettled(settlement: Settlement): void;
}

/** Reads one request and writes its answer. It serves one request only. */
export interface RequestForm {
  /**
   * Returns how to read the body; null: it is read already.
   * @throws ModeletError if the headers are enough to refuse the request
   */
  head(): BodyToRead | null;
  /** Returns the error for a body with more bytes than `head` allows. @throws ModeletError for a better reason */
  tooLarge(): ModeletError;
  /** @throws ModeletError if the body is no input */
  input(body: Chunks): Input;
  /** Time limit that the client asks for, in ms; 0: none, or `input` has not been called. */
  readonly timeoutMs: number;
  /** Answers a request that the runtime does not get. */
  refuse(error: ModeletError): void;
}

type ExchangeState =
  | { readonly tag: 'reading'; readonly stop: () => void }
  | { readonly tag: 'submitted'; abandon(error: ModeletError): void }
  | { readonly tag: 'ended' };

const ENDED: ExchangeState = { tag: 'ended' };
const NOTHING = new Chunks([]);
const IDLE: ExchangeState = { tag: 'reading', stop: () => {} };

export class Exchange implements BodyReadEvents {
  readonly #call: HttpCall;
  readonly #form: RequestForm;
  #state: ExchangeState = IDLE;

  /** @param form makes the form of the request */
  constructor(
    endpoint: ServedEndpoint,
    request: IncomingMessage,
    response: ServerResponse,
    form: (call: HttpCall) => RequestForm,
  ) {
    const requestId = requestIdOf(request.headers, response.getHeader(REQUEST_ID));
    this.#call = { endpoint, request, response, requestId };
    this.#form = form(this.#call);
  }

  /** Starts to read the request. Never throws. */
  begin(): void {
    const { endpoint, request, response } = this.#call;
    response.once('close', () => this.#closed());
    this.#orRefuse(() => {
      endpoint.clients?.admit(request.headers, response, endpoint.spec.path);
      const body = this.#form.head();
      if (!body) this.#submit(this.#form.input(NOTHING));
      // The headers alone may be enough to refuse the body.
      else if (body.coding === 'identity' && (body.length ?? 0) > body.most) throw this.#form.tooLarge();
      else this.#state = { tag: 'reading', stop: readBody(request, body, this) };
    });
  }

  onBody(body: Chunks): void {
    if (this.#state.tag === 'reading') this.#orRefuse(() => this.#submit(this.#form.input(body)));
  }

  onTooLarge(): void {
    this.#orRefuse(() => {
      throw this.#form.tooLarge();
    });
  }

  onMalformed(error: Error): void {
    this.#refuse(new ModeletError('bad_request', `the body cannot be read: ${error.message}`));
  }

  /** @throws ModeletError if the runtime refuses the request */
  #submit(input: Input): void {
    const { endpoint, request, requestId } = this.#call;
    const { runtime, limits } = endpoint;
    const deadline = runtime.deadlineFor(shortest(this.#form.timeoutMs, limits.timeoutMs));
    if ('rows' in input) {
      const onSettled = (outcome: RowsOutcome): void => this.#settled(() => input.onSettled(outcome));
      const rows = new Rows(runtime, { ...input, onSettled }, { requestId, deadline, http: request });
      this.#state = { tag: 'submitted', abandon: (error) => rows.abandon(error) };
      rows.begin();
      return;
    }
    const { payload, sequence, onPart } = input;
    const id = runtime.submit({
      requestId,
      payload,
      deadline,
      sequence,
      http: request,
      onPart: onPart && ((part, taken) => this.#part(() => onPart(part), taken)),
      onSettled: (settlement) => {
        this.#settled(() => input.onSettled(settlement));
        // A late or cancelled request may still be on its way to a stage, which then reads it.
        if (settlement.outcome.ok) payload.chunks?.free();
      },
    });
    this.#state = { tag: 'submitted', abandon: (error) => runtime.abandon(id, error) };
  }

  #part(write: () => void, taken: () => void): void {
    const state = this.#state;
    if (state.tag !== 'submitted') return;
    try {
      write();
    } catch (thrown) {
      state.abandon(asModeletError(thrown, 'modelet_failed'));
      return;
    }
    // Parts that a client does not read stay in memory, so the modelet makes no further parts until it reads.
    whenRead(this.#call.response, taken);
  }

  #settled(answer: () => void): void {
    if (this.#state.tag !== 'submitted') return;
    this.#state = ENDED;
    answer();
  }

  #orRefuse(act: () => void): void {
    try {
      act();
    } catch (thrown) {
      this.#refuse(asModeletError(thrown, 'bad_request'));
    }
  }

  /** Ends a request that the runtime does not get. */
  #refuse(error: ModeletError): void {
    if (this.#state.tag !== 'reading') return;
    this.#state = ENDED;
    // The runtime has counted what it has refused itself.
    this.#call.endpoint.runtime.refused(error, this.#call.requestId);
    this.#form.refuse(error);
  }

  /** The client has its answer, or has gone. */
  #closed(): void {
    const state = this.#state;
    this.#state = ENDED;
    if (state.tag === 'reading') state.stop();
    else if (state.tag === 'submitted') state.abandon(new ModeletError('cancelled', 'the HTTP client went away'));
  }
}

/** Returns the shorter of two time limits; 0 is no limit. */
export function shortest(one: number, other: number): number {
  return one > 0 && (other === 0 || one < other) ? one : other;
}
