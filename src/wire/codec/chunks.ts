/**
 * Bytes in the chunks in which they arrived. A large body is written to the memory that engine and workers share, or to a
 * socket, chunk by chunk: joining it first would take a new buffer of its length, which costs more than the copy.
 *
 * The memory of large payloads is freed when nothing reads them any more: the engine frees what a stage has replaced, and an
 * exchange the body that it has read. V8 would find that memory when it collects the whole heap, and large payloads make it
 * do so many times a second, each time for longer than a request may take.
 *
 *   sole    no reader has kept a chunk                     -> shared | freed
 *   shared  a reader may have kept one: V8 frees the memory
 *   freed   the chunks have no bytes any more
 */
import type { ChunkedBytes, Payload } from '../../core/model.ts';

export class Chunks implements ChunkedBytes {
  readonly length: number;
  #list: readonly Buffer[];
  #state: 'sole' | 'shared' | 'freed' = 'sole';

  constructor(list: readonly Buffer[]) {
    this.#list = list;
    this.length = list.reduce((sum, { length }) => sum + length, 0);
  }

  /** For a reader that may keep a chunk: a socket, a decoder. */
  get list(): readonly Buffer[] {
    const list = this.lent;
    this.share();
    return list;
  }

  /** For a reader that copies them at once, and keeps none. @throws Error if they are freed */
  get lent(): readonly Buffer[] {
    if (this.#state === 'freed') throw new Error('the memory of these bytes has been freed');
    return this.#list;
  }

  /** Joins the chunks the first time. */
  get bytes(): Buffer {
    const { list } = this;
    if (list.length !== 1) this.#list = [Buffer.concat(list, this.length)];
    return this.#list[0] as Buffer;
  }

  /** Leaves the memory to V8. Call if a reader may come after `free`. */
  share(): void {
    if (this.#state === 'sole') this.#state = 'shared';
  }

  /** Gives the memory back, unless it is shared. Nothing may read the bytes any more. */
  free(): void {
    if (this.#state !== 'sole') return;
    this.#state = 'freed';
    for (const chunk of this.#list) freeMemory(chunk);
    this.#list = [];
  }
}

/** Node.js 20 has no `transfer`; V8 frees the memory there. */
type Transferable = Partial<{ transfer(byteLength: number): ArrayBuffer }>;

/** Frees the memory of a buffer, unless others share it. */
function freeMemory({ buffer, byteLength }: Buffer): void {
  if (buffer.byteLength === byteLength) (buffer as Transferable).transfer?.(0);
}

/** A payload that stays in chunks until its bytes are read. */
class ChunkedPayload implements Payload {
  readonly codec: number;
  readonly chunks: ChunkedBytes;

  constructor(codec: number, chunks: ChunkedBytes) {
    this.codec = codec;
    this.chunks = chunks;
  }

  get bytes(): Uint8Array {
    return this.chunks.bytes;
  }
}

/** @returns a payload whose memory can be freed, if the body came in several chunks */
export function payloadOf(codec: number, chunks: Chunks): Payload {
  return chunks.lent.length > 1 ? freeablePayload(codec, chunks) : { codec, bytes: chunks.bytes };
}

/** @returns a payload whose memory can be freed, also if it is in one piece */
export function freeablePayload(codec: number, bytes: ChunkedBytes): Payload {
  return new ChunkedPayload(codec, bytes);
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

/** Returns a payload's bytes in chunks, for a caller that keeps none of them. */
export function lentChunksOf(payload: Payload): readonly Uint8Array[] {
  return payload.chunks?.lent ?? [payload.bytes];
}

/** Returns a payload's bytes in new memory, which is as long as they are. */
export function copiedBytes(payload: Payload): Uint8Array {
  const copy = new Uint8Array(byteLengthOf(payload));
  let at = 0;
  for (const chunk of lentChunksOf(payload)) {
    copy.set(chunk, at);
    at += chunk.byteLength;
  }
  return copy;
}
