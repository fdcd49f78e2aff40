/**
 * Bytes in the chunks in which they arrived. A large body is written to the memory that engine and workers share, or to a
 * socket, chunk by chunk: joining it first would take a new buffer of its length, which costs more than the copy.
 */
import type { Payload } from '../../core/model.ts';

export class Chunks {
  readonly length: number;
  #list: readonly Buffer[];

  constructor(list: readonly Buffer[]) {
    this.#list = list;
    this.length = list.reduce((sum, { length }) => sum + length, 0);
  }

  get list(): readonly Buffer[] {
    return this.#list;
  }

  /** Joins the chunks the first time. */
  get bytes(): Buffer {
    if (this.#list.length !== 1) this.#list = [Buffer.concat(this.#list, this.length)];
    return this.#list[0] as Buffer;
  }
}

/** A payload that stays in chunks until its bytes are read. */
class ChunkedPayload implements Payload {
  readonly codec: number;
  readonly chunks: Chunks;

  constructor(codec: number, chunks: Chunks) {
    this.codec = codec;
    this.chunks = chunks;
  }

  get bytes(): Buffer {
    return this.chunks.bytes;
  }
}

export function payloadOf(codec: number, chunks: Chunks): Payload {
  return chunks.list.length > 1 ? new ChunkedPayload(codec, chunks) : { codec, bytes: chunks.bytes };
}

/** Returns the number of a payload's bytes, without joining its chunks. */
export function byteLengthOf(payload: {
  readonly bytes: { readonly byteLength: number };
  readonly chunks?: { readonly length: number };
}): number {
  return payload.chunks ? payload.chunks.length : payload.bytes.byteLength;
}

/** Returns a payload's bytes in chunks. */
export function chunksOf(payload: Payload): readonly Uint8Array[] {
  return payload.chunks?.list ?? [payload.bytes];
}
