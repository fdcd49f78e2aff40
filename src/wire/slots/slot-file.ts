/**
 * The memory that a process shares with its children: a file of `/dev/shm` without a name, which is read and written by
 * position. Every end copies once, and no end wakes the other before all bytes are there; a socket pair copies twice and
 * wakes its reader for every piece.
 *
 * A runtime has two files, which Node-RED's process opens and all of its other processes inherit, so that bytes are written
 * once and read once on their whole way: one with the slots that Node-RED lends the engine for requests, and one with those
 * that the engine lends its workers. A child writes only to slots that it is lent, and reads both files.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, statfsSync, unlinkSync, writevSync } from 'node:fs';
import { asError } from '../../core/errors.ts';

/** File descriptors in a child: of the file in which its parent lends it slots, and of the other one. */
export const LENT_FD = 4;
export const OTHER_FD = 5;

const FOLDER = '/dev/shm';
/** Part of the free memory that one file may take; others need theirs. */
const SHARE = 0.5;
/** Most bytes of a file. Memory for more large payloads than that is better left to the models. */
const MOST_BYTES = 1024 ** 3;
/** Most buffers in one system call. */
const MOST_BUFFERS = 512;

export class SlotFile {
  readonly fd: number;
  #isClosed = false;

  constructor(fd: number) {
    this.fd = fd;
  }

  /** Whether so many bytes are there to read. */
  reaches(end: number): boolean {
    return fstatSync(this.fd).size >= end;
  }

  /** Returns the bytes between two places. @throws Error if the file ends before */
  read(at: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafeSlow(length);
    for (let filled = 0; filled < length; ) {
      const count = readSync(this.fd, bytes, filled, length - filled, at + filled);
      if (count === 0) throw new Error(`the slots end at ${at + filled}`);
      filled += count;
    }
    return bytes;
  }

  /** Writes the parts one behind the other. Returns false if there is no memory for them. */
  write(parts: readonly Uint8Array[], at: number): boolean {
    let end = at;
    for (let index = 0; index < parts.length; index += MOST_BUFFERS) {
      const some = parts.slice(index, index + MOST_BUFFERS);
      const length = some.reduce((sum, { byteLength }) => sum + byteLength, 0);
      if (this.#written(some, end) < length) return false;
      end += length;
    }
    return true;
  }

  /** Gives all memory back to the system. What is in the slots is lost. */
  empty(): void {
    if (!this.#isClosed) ftruncateSync(this.fd, 0);
  }

  close(): void {
    this.#isClosed = true;
    closeSync(this.fd);
  }

  #written(parts: readonly Uint8Array[], at: number): number {
    try {
      return writevSync(this.fd, parts, at);
    } catch {
      return 0;
    }
  }
}

/** Makes a file without a name. @returns also how many bytes may be used. @throws Error where there is no such memory */
export function openSlotFile(folder: string = FOLDER): { readonly file: SlotFile; readonly bytes: number } {
  const path = `${folder}/modelet-${process.pid}-${process.hrtime.bigint()}`;
  const fd = openSync(path, 'wx+', 0o600);
  try {
    unlinkSync(path);
    return { file: new SlotFile(fd), bytes: usableBytes(folder) };
  } catch (thrown) {
    closeSync(fd);
    throw asError(thrown);
  }
}

/** Returns a file that this process has inherited, and how many bytes may be used. @throws Error if it has none */
export function inheritedSlotFile(fd: number): { readonly file: SlotFile; readonly bytes: number } {
  return { file: new SlotFile(fd), bytes: usableBytes(`/proc/self/fd/${fd}`) };
}

function usableBytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return Math.min(MOST_BYTES, bavail * bsize * SHARE);
}
