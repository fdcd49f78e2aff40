/**
 * Carries frames between threads of one process. Each message is a separate buffer whose ownership is transferred,
 * because a view of a larger buffer would be cloned together with the whole buffer.
 */
import type { MessagePort } from 'node:worker_threads';
import { encodeFrame, type Frame } from '../frames/frames.ts';
import { malformed } from '../frames/items.ts';
import { FrameReader } from './channel.ts';

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

/** @throws ModeletError `protocol_error` for any message that `packFrames` did not make. */
export function unpackFrames(message: unknown): Frame[] {
  if (!(message instanceof ArrayBuffer)) throw malformed('it is no bytes');
  const frames = new FrameReader().push(Buffer.from(message));
  if (frames.length === 0 && message.byteLength > 0) throw malformed(`${message.byteLength} bytes are too few`);
  return frames;
}

/** The channel of a thread to its parent. Frames are delivered at once, and the channel closes when the thread ends. */
export class PortChannel {
  readonly #port: MessagePort;
  readonly #onBytes: (count: number) => void;

  /** @param onBytes called with the number of bytes about to be sent. */
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
