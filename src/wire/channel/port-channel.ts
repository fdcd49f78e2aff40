/**
 * Frames between threads of one process: each message is memory of its own that changes hands. A view of a larger
 * buffer would be cloned with all of that buffer.
 */
import type { MessagePort } from 'node:worker_threads';
import { encodeFrame, type Frame } from '../frames/frames.ts';
import { FrameReader } from './frame-reader.ts';
import { malformed } from './malformed.ts';

/** The data that a worker thread is started with. */
export interface ThreadData {
  /** Cores to run on; null where the platform has no pinning. */
  readonly cpus: readonly number[] | null;
  /** Path of the program that pins the thread. */
  readonly taskset: string;
}

export function packFrames(frames: readonly Frame[]): ArrayBuffer {
  const parts = frames.flatMap((frame) => encodeFrame(frame));
  const message = new Uint8Array(parts.reduce((length, part) => length + part.byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    message.set(part, offset);
    offset += part.byteLength;
  }
  return message.buffer;
}

/** @throws ModeletError `protocol_error` for anything that `packFrames` did not make. */
export function unpackFrames(message: unknown): Frame[] {
  if (!(message instanceof ArrayBuffer)) throw malformed('it is no bytes');
  const frames = new FrameReader().push(Buffer.from(message));
  if (frames.length === 0 && message.byteLength > 0) throw malformed(`${message.byteLength} bytes are too few`);
  return frames;
}

/** A thread's way to its parent. What is sent is there at once; the end of the thread is the end of it. */
export class PortChannel {
  readonly #port: MessagePort;
  readonly #onBytes: (count: number) => void;

  /** @param onBytes so many bytes are sent. */
  constructor(port: MessagePort, onBytes: (count: number) => void) {
    this.#port = port;
    this.#onBytes = onBytes;
  }

  send(frame: Frame): void {
    const message = packFrames([frame]);
    this.#onBytes(message.byteLength);
    this.#port.postMessage(message, [message]);
  }

  flushed(): Promise<void> {
    return Promise.resolve();
  }
}
