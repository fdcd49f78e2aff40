/**
 * An answer that is written while its result is made. The client gets a status with the first part, and hears of an error
 * behind it in the stream itself.
 *
 *   waiting  nothing is written: an error can still be an answer by itself -> begun | ended
 *   begun    the head and some parts are written                            -> ended
 *   ended    nothing more is written
 */
import type { ServerResponse } from 'node:http';
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';
import type { Payload } from '../../core/model.ts';
import { headersOf } from '../answer.ts';
import type { PreparedAnswer } from '../served-endpoint.ts';
import type { Chunk, StreamForm } from './stream-form.ts';

export interface StreamedAnswer {
  readonly requestId: string;
  readonly answer: PreparedAnswer;
  readonly form: StreamForm;
  /** Longest silence before a comment, in ms; 0: no comments. */
  readonly heartbeatMs: number;
  readonly clock?: Clock;
  /** Called right after the head was written. */
  onBegun?(): void;
}

/** After an error, the client has this long to read the rest. */
const LONGEST_READING_MS = 30_000;

/** A proxy must not gather the parts either. The second header is nginx's. */
const UNGATHERED = [
  ['Cache-Control', 'no-cache'],
  ['X-Accel-Buffering', 'no'],
] as const;

export class ResultStream {
  readonly #response: ServerResponse;
  readonly #answer: StreamedAnswer;
  readonly #clock: Clock;
  #state: 'waiting' | 'begun' | 'ended' = 'waiting';
  /** When the last part was written, or the stream was made. */
  #wroteAt: number;
  #heartbeat: Timer | null = null;

  constructor(response: ServerResponse, answer: StreamedAnswer) {
    this.#response = response;
    this.#answer = answer;
    this.#clock = answer.clock ?? systemClock;
    this.#wroteAt = this.#clock.now();
    const { comment } = answer.form;
    if (comment === null || answer.heartbeatMs === 0) return;
    this.#await(comment);
    response.once('close', () => this.#heartbeat?.cancel());
  }

  /** Whether the client has a part, or will never get one. */
  get hasBegun(): boolean {
    return this.#state !== 'waiting';
  }

  /** Whether nothing more will be written. */
  get hasEnded(): boolean {
    return this.#state === 'ended';
  }

  /** @throws ModeletError `modelet_failed` for a part that cannot be written; nothing of it is written then */
  part(payload: Payload): void {
    const chunk = this.#answer.form.part(payload);
    if (chunk !== null) this.write(chunk);
  }

  /** Writes a part that is in the form already. */
  write(chunk: Chunk): void {
    if (!this.#begin(chunk)) return;
    this.#wroteAt = this.#clock.now();
    this.#response.write(chunk);
  }

  /** Writes the value that follows the parts. @throws ModeletError `modelet_failed` */
  end(value: Payload): void {
    this.close(this.#answer.form.end(value));
  }

  /** Writes what follows the parts, in the form already. */
  close(chunk: Chunk): void {
    if (!this.#begin(chunk)) return;
    this.#end();
    this.#response.end(chunk);
  }

  /** Ends a stream that has begun with an error. A stream that has not begun leaves the answer to others, and begins no more. */
  fail(body: object): void {
    this.#heartbeat?.cancel();
    if (this.#state !== 'begun') return;
    this.#end();
    const chunk = this.#answer.form.error(body);
    const end = this.#clock.at(this.#clock.now() + LONGEST_READING_MS, () => this.#response.destroy());
    this.#response.once('close', () => end.cancel());
    if (chunk !== null) this.#response.end(chunk);
    // Without the last chunk. A response that waits behind another has no socket yet.
    else if (this.#response.socket) this.#response.socket.destroySoon();
    else this.#response.destroy();
  }

  #end(): void {
    this.#state = 'ended';
    this.#heartbeat?.cancel();
  }

  /**
   * Writes a comment whenever the stream was silent for too long, because proxies close a connection that is. Also
   * before the first part: the client then has its status, and an error comes in the stream.
   */
  #await(comment: string): void {
    const { heartbeatMs } = this.#answer;
    this.#heartbeat = this.#clock.at(this.#wroteAt + heartbeatMs, () => {
      const isSilent = this.#clock.now() >= this.#wroteAt + heartbeatMs;
      if (!isSilent || this.#comment(comment)) this.#await(comment);
    });
  }

  /** Returns whether another comment may follow. */
  #comment(comment: string): boolean {
    try {
      if (!this.#begin(comment)) return false;
    } catch {
      // A flow may have written a status or headers that HTTP cannot carry. The first part or the end says so.
      return false;
    }
    this.#wroteAt = this.#clock.now();
    // A client that does not read gets nothing more to read.
    if (!this.#response.writableNeedDrain) this.#response.write(comment);
    return true;
  }

  /** Returns whether there is a client to write to. */
  #begin(first: string | Buffer): boolean {
    if (this.#state === 'waiting') {
      const isOpen = !this.#response.headersSent && !this.#response.destroyed;
      if (isOpen) this.#writeHead(first);
      this.#state = isOpen ? 'begun' : 'ended';
      if (isOpen) this.#answer.onBegun?.();
    }
    return this.#state === 'begun' && !this.#response.destroyed;
  }

  #writeHead(first: string | Buffer): void {
    const { requestId, answer } = this.#answer;
    const status = answer.statusCode ?? 200;
    const type = (answer.contentType ?? this.#answer.form.contentType)[typeof first === 'string' ? 'text' : 'bytes'];
    const headers = headersOf({ status, requestId, answer });
    for (const [name, value] of UNGATHERED) if (!answer.sets.has(name.toLowerCase())) headers.push(name, value);
    this.#response.writeHead(status, [...headers, 'Content-Type', type]);
  }
}

/** Callbacks, by response, for the moment when the client has read everything that was written to it. */
const unread: WeakMap<Readable, (() => void)[]> = new WeakMap();

/** A response, as far as the pace of its client matters. */
interface Readable {
  /** Whether the client has not yet read everything that was written; `drain` follows. */
  readonly writableNeedDrain?: boolean;
  readonly destroyed: boolean;
  once(event: 'close' | 'drain', listener: () => void): unknown;
  off(event: 'close' | 'drain', listener: () => void): unknown;
}

/** Calls `call` when the client of a response has read everything that was written, or is gone; maybe immediately. */
export function whenRead(response: Readable, call: () => void): void {
  if (!response.writableNeedDrain || response.destroyed) {
    call();
    return;
  }
  const calls = unread.get(response);
  if (calls) calls.push(call);
  else awaitReading(response, call);
}

function awaitReading(response: Readable, call: () => void): void {
  const calls = [call];
  unread.set(response, calls);
  const ended = (): void => {
    response.off('drain', ended);
    response.off('close', ended);
    unread.delete(response);
    for (const each of calls) each();
  };
  response.once('drain', ended);
  response.once('close', ended);
}
