/**
 * Counts the bytes of answers that wait in this process because clients do not read them, and closes the connections of
 * clients that have stopped reading.
 */
import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Clock } from '../../core/clock.ts';

/** The count is so old at most, in ms. What was written since is added, as if no client had read any of it. */
const LOOK_MS = 10;
/** A client may be silent for so long in the middle of an answer, as with nginx's `send_timeout`. */
const SILENT_MS = 60_000;
/** Smaller answers fit in the kernel's buffers. */
const LARGE = 64 * 1024;

/** Either a connection, or a response that waits behind another on its connection. */
type Waiting = Pick<Socket, 'writableLength'> & { readonly socket?: Socket | null };

export class Unread {
  readonly #clock: Clock;
  readonly #open: Set<Waiting> = new Set();
  #counted = 0;
  #countedAt = 0;
  #since = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  connected(socket: Socket): void {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Notes a request. Its response counts by itself while it has no connection: clients may send requests ahead. */
  asked(response: ServerResponse): void {
    response.once('prefinish', () => {
      // A WebSocket's request has no connection with a timeout, see loopback.ts.
      const isTimed = response.socket instanceof Socket;
      if (isTimed && response.writableLength > LARGE) response.setTimeout(SILENT_MS, () => response.destroy());
    });
    if (response.socket) return;
    this.#open.add(response);
    response.once('close', () => this.#open.delete(response));
  }

  /** Notes that an answer, or a part of an answer, is written. */
  wrote(bytes: number): void {
    this.#since += bytes;
  }

  get bytes(): number {
    const now = this.#clock.now();
    if (this.#since + this.#counted > 0 && now >= this.#countedAt + LOOK_MS) {
      this.#counted = 0;
      for (const one of this.#open) if (!one.socket) this.#counted += one.writableLength;
      this.#countedAt = now;
      this.#since = 0;
    }
    return this.#counted + this.#since;
  }
}
