/**
 * A WebSocket at an endpoint. Each message from the client is the body of one request, in turn; each line of its answer is
 * a message to the client: `{"part": ...}`, then `{"done": ...}` or `{"error": {...}}`.
 *
 *   idle    no request is open                           -> asking | closed
 *   asking  the client gets messages, further ones wait  -> idle | closed
 *   closed  the client has gone, or was sent away
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../../core/clock.ts';

/** The part of a WebSocket of the package ws that is used. */
export interface WebSocket {
  readonly bufferedAmount: number;
  send(text: string, sent: () => void): void;
  ping(): void;
  close(code: number, reason: string): void;
  terminate(): void;
  on(event: 'message', listener: (data: Buffer | string, isBinary?: boolean) => void): void;
  on(event: 'pong' | 'close' | 'error', listener: () => void): void;
}

export interface SessionTerms {
  readonly clock: Clock;
  /** Longest silence before a ping, in ms; a client that has not answered one is gone at the next. 0: no pings. */
  readonly heartbeatMs: number;
  /** Begins a request with a message as its body. */
  ask(body: Buffer | string, isBinary: boolean): ClientRequest;
  onClosed(): void;
}

interface Message {
  readonly body: Buffer | string;
  readonly isBinary: boolean;
}

type SessionState =
  | { readonly tag: 'idle' }
  | { readonly tag: 'asking'; readonly request: ClientRequest }
  | { readonly tag: 'closed' };

const IDLE: SessionState = { tag: 'idle' };
const CLOSED: SessionState = { tag: 'closed' };

/** Most messages that wait for the open one. */
const MOST_WAITING = 16;
/** Bytes that the client has not read yet, above which its answer pauses. */
const MOST_UNREAD = 64 * 1024;
/** Time for the client to answer that the connection ends. */
const LAST_WORDS_MS = 2000;

/** Codes of RFC 6455. */
const GOING_AWAY = 1001;
const TRY_LATER = 1013;
const UNEXPECTED = 1011;

export class SocketSession {
  readonly #web: WebSocket;
  readonly #terms: SessionTerms;
  #state: SessionState = IDLE;
  #waiting: Message[] = [];
  #isEnding = false;
  #isAlive = true;
  #timer: Timer | null = null;

  constructor(web: WebSocket, terms: SessionTerms) {
    this.#web = web;
    this.#terms = terms;
    web.on('message', (body, isBinary = typeof body !== 'string') => this.#take({ body, isBinary }));
    web.on('pong', () => this.#hears());
    web.on('error', () => {});
    web.on('close', () => this.#closed());
    this.#ping();
  }

  /** Lets the open request end, and then the connection. */
  end(): void {
    this.#isEnding = true;
    if (this.#state.tag === 'idle') this.#leave(GOING_AWAY, 'the endpoint is not served any more');
  }

  #take(message: Message): void {
    if (this.#state.tag === 'closed' || this.#isEnding) return;
    if (this.#waiting.length >= MOST_WAITING) {
      this.#leave(TRY_LATER, `more than ${MOST_WAITING} messages wait: send the next one when one is done`);
      return;
    }
    this.#waiting.push(message);
    this.#next();
  }

  #next(): void {
    if (this.#state.tag !== 'idle') return;
    const message = this.#isEnding ? undefined : this.#waiting.shift();
    if (message) this.#ask(message);
    else if (this.#isEnding) this.end();
  }

  #ask({ body, isBinary }: Message): void {
    const request = this.#terms.ask(body, isBinary);
    this.#state = { tag: 'asking', request };
    const cutOff = (): void => {
      if (this.#state.tag === 'asking' && this.#state.request === request)
        this.#leave(UNEXPECTED, 'the answer was cut off');
    };
    request.on('error', cutOff);
    request.on('response', (answer) => this.#pass(answer, cutOff));
  }

  #pass(answer: IncomingMessage, cutOff: () => void): void {
    let rest = '';
    answer.setEncoding('utf8');
    answer.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() as string;
      for (const line of lines) this.#send(line, answer);
    });
    answer.on('error', cutOff);
    answer.on('end', () => {
      // The answer to a request that is refused is no line but a whole body.
      if (rest !== '') this.#send(rest, answer);
      if (this.#state.tag !== 'asking') return;
      this.#state = IDLE;
      this.#next();
    });
  }

  #send(text: string, answer: IncomingMessage): void {
    if (this.#state.tag === 'closed') return;
    this.#web.send(text, () => {
      this.#hears();
      if (this.#web.bufferedAmount <= MOST_UNREAD) answer.resume();
    });
    // The connection behind the answer fills up, and the modelet waits.
    if (this.#web.bufferedAmount > MOST_UNREAD) answer.pause();
  }

  /** Pings, and ends a connection whose client was silent since the last ping. */
  #ping(): void {
    const { clock, heartbeatMs } = this.#terms;
    if (heartbeatMs === 0) return;
    this.#timer = clock.at(clock.now() + heartbeatMs, () => {
      if (!this.#isAlive) {
        this.#web.terminate();
        return;
      }
      this.#isAlive = false;
      this.#web.ping();
      this.#ping();
    });
  }

  #hears(): void {
    this.#isAlive = true;
  }

  #leave(code: number, reason: string): void {
    this.#web.close(code, reason);
    const { clock } = this.#terms;
    this.#closed();
    clock.at(clock.now() + LAST_WORDS_MS, () => this.#web.terminate());
  }

  /** A client that has gone needs no answer. */
  #closed(): void {
    const state = this.#state;
    if (state.tag === 'closed') return;
    this.#state = CLOSED;
    this.#waiting = [];
    this.#timer?.cancel();
    if (state.tag === 'asking') state.request.destroy();
    this.#terms.onClosed();
  }
}
