/**
 * The HTTP clients that wait for an answer: of requests to HTTP-in nodes in flows that hold a pipeline, and of messages
 * that have come to one. Hears when one goes away, and answers those whose way through the flow is gone: none may hang.
 */
import { deadlineAfter, systemClock, type Timer } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import { Fifo, type FifoNode } from '../../core/fifo.ts';
import type { HttpRequest, HttpResponse } from '../http/http-types.ts';
import { answerDirectly, answerError, type PipelineMessage } from './messages.ts';
import type { Headers } from './request-id.ts';

interface WaitingClient {
  readonly response: HttpResponse;
  readonly headers: Headers;
  /** The HTTP-in node that has it; '' where that is not known. */
  readonly from: string;
  /** It leads to a pipeline, which says how long a request may take. */
  readonly isTimed: boolean;
  /** As it came to its first pipeline node. */
  msg?: PipelineMessage;
  /** Who wants to hear of its going away; several where a split made many messages of one request. */
  readonly listeners: Set<() => void>;
  /** Who wants to hear that it was answered with an error. */
  readonly failed: Set<() => void>;
  /** Set where a deploy has given it a last moment. */
  end?: Timer;
}

export class HttpClients {
  readonly #waiting: Fifo<WaitingClient> = new Fifo();
  /** Where a response's client is in the list. */
  readonly #places: WeakMap<HttpResponse, FifoNode<WaitingClient>> = new WeakMap();
  /** Calls that wait, by response, until its client has taken everything that was written to it. */
  readonly #unread: WeakMap<HttpResponse, (() => void)[]> = new WeakMap();
  /** Those that waited already when the last deploy began. */
  readonly #earlier: Set<WaitingClient> = new Set();
  readonly #noneEarlier: () => void;

  /** @param noneEarlier called when the last client that a deploy has found waiting is answered or gone */
  constructor(noneEarlier: () => void) {
    this.#noneEarlier = noneEarlier;
  }

  /** A request is let through to an HTTP-in node. */
  enter({ headers }: HttpRequest, response: HttpResponse, from: string, isTimed: boolean): void {
    if (!this.#places.has(response)) this.#add(response, { headers, from, isTimed });
  }

  /** Calls `gone` if the message's client closes its connection unanswered; returns how to stop listening. */
  watch(msg: PipelineMessage, gone: () => void): () => void {
    const client = this.#clientOf(msg);
    if (!client) return () => {};
    const { response } = client;
    client.msg ??= msg;
    client.listeners.add(gone);
    if (response.destroyed) setImmediate(() => this.#closed(response));
    return () => client.listeners.delete(gone);
  }

  /** Calls `failed` once the message's client, who still waits, is answered with an error by whatever node. */
  whenFailed(msg: PipelineMessage, failed: () => void): void {
    if (!msg.res?._res?.destroyed) this.#clientOf(msg)?.failed.add(failed);
  }

  /** Calls once the message's client has taken what the flow has written to it, or is gone; at once where it has. */
  whenRead(msg: PipelineMessage, call: () => void): void {
    const response = msg.res?._res;
    if (!response?.writableNeedDrain || response.destroyed) {
      call();
      return;
    }
    const calls = this.#unread.get(response);
    if (calls) calls.push(call);
    else this.#awaitReading(response, call);
  }

  /** A deploy begins. */
  noteEarlier(): void {
    for (const client of this.#waiting) this.#earlier.add(client);
  }

  get isNoneEarlier(): boolean {
    return this.#earlier.size === 0;
  }

  /** Answers a message's client if it waited when the last deploy began. */
  answerIfEarlier({ res }: PipelineMessage, error: ModeletError): void {
    const client = res?._res && this.#places.get(res._res)?.value;
    if (client && this.#earlier.has(client)) answer(client, error);
  }

  /** Answers those that waited when the last deploy began and came by one of certain HTTP-in nodes. */
  answerFrom(isChosen: (httpIn: string) => boolean, error: ModeletError): void {
    const froms = [...new Set([...this.#earlier].map(({ from }) => from))];
    const chosen = new Set(froms.filter((from) => from !== '' && isChosen(from)));
    for (const client of [...this.#earlier]) if (chosen.has(client.from)) answer(client, error);
  }

  /** Answers all whose message is in no pipeline. */
  answerElsewhere(error: ModeletError): void {
    for (const client of [...this.#waiting]) if (client.listeners.size === 0) answer(client, error);
  }

  /**
   * Answers those whom the last deploy found waiting when their time is up, if they have waited ever since and their
   * message is in no pipeline. @param timeoutMs of those that have come to no pipeline yet; 0: none
   * @param lost hears of the message first
   */
  answerInTime(timeoutMs: number, error: ModeletError, lost: (msg: PipelineMessage) => void): void {
    for (const client of this.#earlier) {
      const { msg, isTimed } = client;
      const end = msg ? (msg.modelet?.deadline ?? Number.POSITIVE_INFINITY) : deadlineAfter(systemClock, timeoutMs);
      if (!isTimed || client.end || end === Number.POSITIVE_INFINITY) continue;
      client.end = systemClock.at(end, () => {
        if (client.listeners.size > 0) return;
        if (client.msg) lost(client.msg);
        answer(client, error);
      });
    }
  }

  #clientOf(msg: PipelineMessage): WaitingClient | undefined {
    const response = msg.res?._res;
    if (!response || typeof response.once !== 'function') return undefined;
    const known = this.#places.get(response)?.value;
    if (known || response.writableFinished) return known;
    return this.#add(response, { headers: msg.req?.headers ?? {}, from: '', isTimed: true });
  }

  #add(response: HttpResponse, request: Pick<WaitingClient, 'headers' | 'from' | 'isTimed'>): WaitingClient {
    const client: WaitingClient = { response, ...request, listeners: new Set(), failed: new Set() };
    this.#places.set(response, this.#waiting.push(client));
    response.once('close', () => this.#closed(response));
    return client;
  }

  #awaitReading(response: HttpResponse, call: () => void): void {
    const calls = [call];
    this.#unread.set(response, calls);
    const ended = (): void => {
      response.off('drain', ended);
      response.off('close', ended);
      this.#unread.delete(response);
      for (const each of calls) each();
    };
    response.once('drain', ended);
    response.once('close', ended);
  }

  #closed(response: HttpResponse): void {
    const place = this.#places.get(response);
    this.#places.delete(response);
    if (!place || !this.#waiting.remove(place)) return;
    const { listeners, failed, end } = place.value;
    end?.cancel();
    if (!response.writableFinished) for (const gone of listeners) gone();
    else if (response.statusCode >= 400) for (const tell of failed) tell();
    if (this.#earlier.delete(place.value) && this.isNoneEarlier) this.#noneEarlier();
  }
}

function answer({ response, headers, msg }: WaitingClient, error: ModeletError): void {
  if (msg) answerDirectly(msg, error, msg.modelet?.requestId ?? '');
  else if (!response.headersSent && !response.destroyed) answerError(headers, response, error);
}
