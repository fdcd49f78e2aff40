/**
 * Downloads one file: goes on where an earlier try has ended, tries again after a cut, and checks size and hash. The file grows
 * under another name, and has its own only when all is right.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rm, stat, truncate } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { HubFile } from '../../../config/tasks/hub-model.ts';
import { type Clock, systemClock } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import { DownloadError, type OpenedFile } from './hub.ts';

/** Tries without a further byte before the download fails. */
const MOST_TRIES = 5;
/** The first try after a cut comes at once, each further one after twice the time of the one before, from this on, in ms. */
const PAUSE_MS = 1000;
const READ_BYTES = 256 * 1024;
const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT']);

export interface FileFetch {
  readonly file: HubFile;
  /** The path at which it grows. */
  readonly part: string;
  readonly open: (from: number, signal: AbortSignal) => Promise<OpenedFile>;
  readonly signal: AbortSignal;
  /** Is called with the number of bytes that are there. */
  readonly grown: (bytes: number) => void;
  readonly clock?: Clock;
}

/** @throws DownloadError, or the reason of the signal */
export async function fetchFile(fetch: FileFetch): Promise<void> {
  const { file, part } = fetch;
  await mkdir(dirname(part), { recursive: true });
  const held = await bytesHeld(part);
  const isResumed = held > 0;
  if (held > file.size) await truncate(part, 0);
  await fill(fetch);
  if (await isRight(part, file)) return;
  await rm(part, { force: true });
  // An earlier try may have left broken bytes.
  if (isResumed) {
    await fill(fetch);
    if (await isRight(part, file)) return;
    await rm(part, { force: true });
  }
  throw new DownloadError('wrong_content', `${file.name} is not what the hub says: its hash differs`);
}

/** Adds what is missing, with as many tries as it takes while bytes come. */
async function fill(fetch: FileFetch): Promise<void> {
  const { file, part, signal, clock = systemClock } = fetch;
  let failed = 0;
  for (;;) {
    const before = await bytesHeld(part);
    fetch.grown(Math.max(0, before));
    try {
      if (before !== file.size) await append({ ...fetch, from: Math.max(0, before) });
      return;
    } catch (thrown) {
      const error = nameFault(thrown, file);
      signal.throwIfAborted();
      failed = (await bytesHeld(part)) > before ? 0 : failed + 1;
      if (!error.isPassing || failed >= MOST_TRIES) throw error;
      if (failed > 0) await pause(PAUSE_MS * 2 ** (failed - 1), signal, clock);
    }
  }
}

/** Writes the rest of the file from a byte on. The bytes that have come stay, whatever ends it. */
async function append({
  file,
  part,
  from: at,
  open: openAt,
  signal,
  grown,
}: FileFetch & { readonly from: number }): Promise<void> {
  const { from, body } = await openAt(at, signal);
  const handle = await open(part, from === 0 ? 'w' : 'a');
  let bytes = from;
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > file.size) throw new DownloadError('wrong_content', `${file.name} is longer than the hub says`);
      await handle.writeFile(chunk);
      grown(bytes);
    }
  } finally {
    await handle.close();
  }
  if (bytes === file.size) return;
  throw new DownloadError('offline', `${file.name} breaks off after ${bytes} of ${file.size} bytes`, {
    isPassing: true,
  });
}

function nameFault(thrown: unknown, { name }: HubFile): DownloadError {
  if (thrown instanceof DownloadError) return thrown;
  const cause = asError(thrown) as NodeJS.ErrnoException;
  if (FULL.has(cause.code)) return new DownloadError('disk_full', `no room on the disk for ${name}`, { cause });
  // Errors of the file system name the call.
  if (cause.syscall !== undefined && cause.path !== undefined)
    return new DownloadError('failed', `${name} cannot be written: ${cause.message}`, { cause });
  return new DownloadError('offline', `${name} breaks off: ${cause.message}`, { cause, isPassing: true });
}

async function isRight(path: string, { size, hash }: HubFile): Promise<boolean> {
  if ((await bytesHeld(path)) !== size) return false;
  if (hash === null) return true;
  const sum = createHash(hash.kind === 'git' ? 'sha1' : 'sha256');
  if (hash.kind === 'git') sum.update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES })) sum.update(chunk as Buffer);
  return sum.digest('hex') === hash.value;
}

/** Returns -1 for a file that is not there. */
export async function bytesHeld(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    return -1;
  }
}

/** @throws the reason of the signal */
export async function pause(ms: number, signal: AbortSignal, clock: Clock = systemClock): Promise<void> {
  signal.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = (): void => {
      timer.cancel();
      // A download may pause often, and its signal lives as long.
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = clock.at(clock.now() + ms, end);
    signal.addEventListener('abort', end);
  });
  signal.throwIfAborted();
}
