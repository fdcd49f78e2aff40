/** What a watch needs of the file system: events of a file's folder, and what the file has in it. */
import { createHash } from 'node:crypto';
import { type BigIntStats, createReadStream, type FSWatcher, realpathSync, statSync, watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';

export interface FileReading {
  /** Another one whenever the file has been touched. */
  readonly stamp: string;
  readonly hash: string;
}

/** `absent`: it is not there, cannot be read, or is empty. `moving`: it was touched while it was read. */
export type FileLook = { readonly tag: 'read'; readonly reading: FileReading } | { readonly tag: 'absent' | 'moving' };

export interface FolderWatch {
  close(): void;
}

export interface Files {
  /**
   * Tells what happens in the folder of a file: `own` of the file itself. Keeps no process alive.
   * @throws the system's error where the folder cannot be watched.
   */
  watch(path: string, onEvent: (own: boolean) => void, onError: (error: Error) => void): FolderWatch;
  /** Never rejects. `known`: is returned without reading where the file has not been touched since. */
  look(path: string, known: FileReading | null): Promise<FileLook>;
}

/** Those of this machine. */
export const files: Files = {
  // The folder and not the file: editors put another file in its place, which a watch of the old one would not see.
  watch(path, onEvent, onError) {
    const watchers: FSWatcher[] = [];
    const close = (): void => {
      for (const watcher of watchers) watcher.close();
    };
    try {
      for (const place of placesOf(path)) {
        const watcher = watch(dirname(place), { persistent: false }, (_event, name) =>
          onEvent(name === null || name === basename(place)),
        );
        watchers.push(watcher.on('error', onError));
      }
    } catch (thrown) {
      close();
      throw thrown;
    }
    return { close };
  },

  async look(path, known) {
    try {
      const stamp = await stampOf(path);
      if (stamp === null) return { tag: 'absent' };
      if (known?.stamp === stamp) return { tag: 'read', reading: known };
      const hash = createHash('sha256');
      for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
      if ((await stampOf(path)) !== stamp) return { tag: 'moving' };
      return { tag: 'read', reading: { stamp, hash: hash.digest('base64') } };
    } catch {
      return { tag: 'absent' };
    }
  },
};

/** The file, and the one that it is a link to. */
function placesOf(path: string): string[] {
  try {
    return [...new Set([path, realpathSync(path)])];
  } catch {
    return [path];
  }
}

async function stampOf(path: string): Promise<string | null> {
  return stampIn(await stat(path, { bigint: true }));
}

/** Null for an empty file: it has been cut off to be written anew. */
function stampIn({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string | null {
  return size === 0n ? null : [ino, size, mtimeNs, ctimeNs].join();
}

/** What tells, later, whether the file has been touched since now; that it is not there is one state as well. */
export function readingNow(path: string): FileReading {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return { stamp: (stats && stampIn(stats)) ?? '', hash: '' };
}
