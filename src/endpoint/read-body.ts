/**
 * Reads the body of an HTTP request into one buffer, without a copy where it arrives in one piece. Keeps no more than
 * the limit, even of a compressed body, and no more than has arrived of a large one.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { ContentCoding } from './request-head.ts';

/** A body of up to this size gets all its memory when its first byte arrives, a larger one when so much has arrived. */
const TRUSTED_LENGTH = 1024 * 1024;

const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress } as const;

export interface BodyReadEvents {
  /** The whole body has arrived. */
  onBody(body: Buffer): void;
  onTooLarge(): void;
  /** The body is not compressed as its headers say. */
  onMalformed(error: Error): void;
}

export interface BodyToRead {
  readonly coding: ContentCoding;
  /** Length of the body as it is sent; null: it comes in chunks. */
  readonly length: number | null;
  /** Most bytes, decoded. */
  readonly most: number;
}

const NOTHING = Buffer.alloc(0);

/**
 * Starts to read. Calls one of the events, once, unless the client goes away before.
 * @returns a function that stops reading; call it when the client has gone
 */
export function readBody(request: IncomingMessage, body: BodyToRead, events: BodyReadEvents): () => void {
  const { coding, length, most } = body;
  const decoder = coding === 'identity' ? null : DECODERS[coding]();
  const source: Readable = decoder ? request.pipe(decoder) : request;
  const gathered = new Gathered(decoder ? null : length);
  const stop = (): void => {
    source.off('data', onData).off('end', onEnd);
    if (!decoder) return;
    request.unpipe(decoder);
    decoder.destroy();
    // A stream that was piped stays paused, and the next request of the connection would wait behind its rest.
    request.resume();
  };
  const onData = (chunk: Buffer): void => {
    if (gathered.add(chunk) <= most) return;
    stop();
    // The rest of the body flows on, and nothing keeps it.
    events.onTooLarge();
  };
  const onEnd = (): void => events.onBody(gathered.take());
  source.on('data', onData).on('end', onEnd);
  decoder?.on('error', (error) => {
    stop();
    events.onMalformed(error);
  });
  return stop;
}

/** The bytes of a body that have arrived: in chunks, or in their place in the whole body. */
class Gathered {
  readonly #length: number | null;
  #chunks: Buffer[] = [];
  #whole: Buffer | null = null;
  #bytes = 0;

  constructor(length: number | null) {
    this.#length = length;
  }

  /** Returns the number of bytes so far. */
  add(chunk: Buffer): number {
    if (this.#whole) chunk.copy(this.#whole, this.#bytes);
    else this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (!this.#whole && this.#isWorthWhole) this.#begin(this.#length as number);
    return this.#bytes;
  }

  take(): Buffer {
    if (this.#whole) return this.#whole.subarray(0, this.#bytes);
    const [only = NOTHING] = this.#chunks;
    return this.#chunks.length > 1 ? Buffer.concat(this.#chunks, this.#bytes) : only;
  }

  /** Whether the length is known, more is to come, and the client has shown that it means its length. */
  get #isWorthWhole(): boolean {
    const length = this.#length;
    return length !== null && this.#bytes < length && (length <= TRUSTED_LENGTH || this.#bytes >= TRUSTED_LENGTH);
  }

  #begin(length: number): void {
    this.#whole = Buffer.allocUnsafeSlow(length);
    let at = 0;
    for (const chunk of this.#chunks) at += chunk.copy(this.#whole, at);
    this.#chunks = [];
  }
}
