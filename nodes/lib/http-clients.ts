/**
 * The HTTP clients that wait for a message of ours: to hear when one goes away, and to answer those whose way
 * through the flow is gone. A client must never hang.
 */
import { Fifo, type FifoNode, type ModeletError } from '../../src/index.ts';
import type { HttpResponse } from './http-types.ts';
import { answerDirectly, type PipelineMessage } from './messages.ts';

interface WaitingClient {
  readonly msg: PipelineMessage;
  /** Who wants to hear of its going away; several where a split made many messages of one request. */
  readonly listeners: Set<() => void>;
  /** Who wants to hear that it was answered with an error. */
  readonly failed: Set<() => void>;
}

export class HttpClients {
  readonly #waiting: Fifo<WaitingClient> = new Fifo();
  /** Where a response's client is in the list. */
  readonly #places: WeakMap<HttpResponse, FifoNode<WaitingClient>> = new WeakMap();
  /** By response, who waits until its client has taken what was written to it. */
  readonly #unread: WeakMap<HttpResponse, (() => void)[]> = new WeakMap();
  #elsewhere: WaitingClient[] = [];

  /** Calls `gone` if the message's client closes its connection unanswered; returns how to stop listening. */
  watch(msg: PipelineMessage, gone: () => void): () => void {
    const response = msg.res?._res;
    if (!response || typeof response.once !== 'function') return () => {};
    const client = this.#places.get(response)?.value ?? this.#add(response, msg);
    client.listeners.add(gone);
    if (response.destroyed) setImmediate(() => this.#closed(response));
    return () => client.listeners.delete(gone);
  }

  /** Calls `failed` once the message's client, who still waits, is answered with an error by whatever node. */
  whenFailed(msg: PipelineMessage, failed: () => void): void {
    const response = msg.res?._res;
    const waits = response && typeof response.once === 'function' && !response.writableFinished && !response.destroyed;
    if (waits) (this.#places.get(response)?.value ?? this.#add(response, msg)).failed.add(failed);
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

  /** Answers every client that still waits. For when no flow is left that could. */
  answerAll(error: ModeletError): void {
    for (const { msg } of [...this.#waiting]) answerDirectly(msg, error, msg.modelet?.requestId ?? '');
  }

  /** Remembers who is waiting for a message that is on its way through other nodes, not in a pipeline. */
  noteElsewhere(): void {
    this.#elsewhere = [...this.#waiting].filter(({ listeners }) => listeners.size === 0);
  }

  /** Answers those noted that still wait and have not come back to a pipeline. */
  answerElsewhere(error: ModeletError): void {
    const lost = this.#elsewhere.filter(({ listeners }) => listeners.size === 0);
    this.#elsewhere = [];
    for (const { msg } of lost) answerDirectly(msg, error, msg.modelet?.requestId ?? '');
  }

  #add(response: HttpResponse, msg: PipelineMessage): WaitingClient {
    const client: WaitingClient = { msg, listeners: new Set(), failed: new Set() };
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
    const { listeners, failed } = place.value;
    if (!response.writableFinished) for (const gone of listeners) gone();
    else if (response.statusCode >= 400) for (const tell of failed) tell();
  }
}
