/**
 * Tracks the HTTP clients that wait for an answer: clients of HTTP-in nodes in flows that contain a pipeline, and
 * clients of messages that reached a pipeline. Reports clients that disconnect, and answers clients whose message can
 * no longer reach an HTTP response: no client may hang.
 */
import { deadlineAfter, systemClock, type Timer } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import { Fifo, type FifoNode } from '../../core/queues/fifo.ts';
import type { Headers } from '../../http/request-head.ts';
import type { HttpRequest, HttpResponse } from '../http/http-types.ts';
import { answerDirectly, answerError } from './direct-answers.ts';
import type { PipelineMessage } from './messages.ts';

interface WaitingClient {
  readonly response: HttpResponse;
  readonly headers: Headers;
  /** The id of the HTTP-in node that received the request; '' if unknown. */
  readonly from: string;
  /** Whether the HTTP-in node leads to a pipeline, whose timeout then limits the request. */
  readonly isTimed: boolean;
  /** The message as its first pipeline node received it. */
  msg?: PipelineMessage;
  /** Callbacks for a disconnect; several if a split made many messages from one request. */
  readonly listeners: Set<() => void>;
  /** Callbacks for an answer with an error status (400 or higher). */
  readonly failed: Set<() => void>;
  /** The timer that ends the wait; set after a deploy. */
  end?: Timer;
}

export class HttpClients {
  readonly #waiting: Fifo<WaitingClient> = new Fifo();
  /** Each client's place in `#waiting`, by response. */
  readonly #places: WeakMap<HttpResponse, FifoNode<WaitingClient>> = new WeakMap();
  /** Clients that were already waiting when the last deploy began. */
  readonly #earlier: Set<WaitingClient> = new Set();

  /** Records a request that is about to reach an HTTP-in node. */
  enter({ headers }: HttpRequest, response: HttpResponse, from: string, isTimed: boolean): void {
    if (!this.#places.has(response)) this.#add(response, { headers, from, isTimed });
  }

  /** Calls `gone` if the message's client disconnects before its answer. Returns a function that stops listening. */
  watch(msg: PipelineMessage, gone: () => void): () => void {
    const client = this.#clientOf(msg);
    if (!client) return () => {};
    const { response } = client;
    client.msg ??= msg;
    client.listeners.add(gone);
    if (response.destroyed) setImmediate(() => this.#closed(response));
    return () => client.listeners.delete(gone);
  }

  /** Calls `failed` once if any node answers the message's waiting client with an error. */
  whenFailed(msg: PipelineMessage, failed: () => void): void {
    if (!msg.res?._res?.destroyed) this.#clientOf(msg)?.failed.add(failed);
  }

  /** Notes at the start of a deploy which clients are waiting. */
  noteEarlier(): void {
    for (const client of this.#waiting) this.#earlier.add(client);
  }

  /** Answers a message's client if it was already waiting when the last deploy began. */
  answerIfEarlier({ res }: PipelineMessage, error: ModeletError): void {
    const client = res?._res && this.#places.get(res._res)?.value;
    if (client && this.#earlier.has(client)) answer(client, error);
  }

  /** Answers the clients of the chosen HTTP-in nodes that were already waiting when the last deploy began. */
  answerFrom(isChosen: (httpIn: string) => boolean, error: ModeletError): void {
    const froms = [...new Set([...this.#earlier].map(({ from }) => from))];
    const chosen = new Set(froms.filter((from) => from !== '' && isChosen(from)));
    for (const client of [...this.#earlier]) if (chosen.has(client.from)) answer(client, error);
  }

  /** Answers every client whose message is in no pipeline. */
  answerElsewhere(error: ModeletError): void {
    for (const client of [...this.#waiting]) if (client.listeners.size === 0) answer(client, error);
  }

  /**
   * Sets a timer for each client that was already waiting when the last deploy began. When its time is up, answers the
   * client if it still waits and its message is in no pipeline.
   * @param timeoutMs time for clients whose message has not reached a pipeline yet; 0: no limit
   * @param lost called with the message before the answer
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

  #closed(response: HttpResponse): void {
    const place = this.#places.get(response);
    this.#places.delete(response);
    if (!place || !this.#waiting.remove(place)) return;
    const { listeners, failed, end } = place.value;
    end?.cancel();
    if (!response.writableFinished) for (const gone of listeners) gone();
    else if (response.statusCode >= 400) for (const tell of failed) tell();
    this.#earlier.delete(place.value);
  }
}

function answer({ response, headers, msg }: WaitingClient, error: ModeletError): void {
  if (msg) answerDirectly(msg, error, msg.modelet?.requestId ?? '');
  else if (!response.headersSent && !response.destroyed) answerError(headers, response, error);
}
