/**
 * Checks the files of a store in their folder. SQLite holds its files open and keeps using them after a user deletes
 * or replaces them; everything written from then on is lost when the process ends. So the queue checks the files before
 * and after each write.
 *
 * A marker beside the file records that a store exists. With the marker, a missing file is a loss and not a first
 * start. The file is recreated only after its marker has been deleted, too.
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { storeError } from './sqlite.ts';

interface MarkerContent {
  /** Session of the owner that last opened the file. */
  readonly session?: unknown;
  /** Id of that file. */
  readonly file?: unknown;
  /** The owner has not closed the file, so some items may be only in the log beside it. */
  readonly needsLog?: unknown;
}

/** Facts about an existing file. */
interface FoundFile {
  /** Differs between two files at the same path. */
  readonly id: string;
  readonly bytes: bigint;
}

type StoreFileState =
  | { readonly tag: 'unopened' }
  | { readonly tag: 'open'; readonly file: FoundFile; readonly logs: ReadonlyMap<string, string> }
  /** The files differ from those opened, and a marker exists that people can delete. */
  | { readonly tag: 'lost'; readonly opened: Extract<StoreFileState, { tag: 'open' }> };

/** The logs of SQLite; its version decides which one it uses. A file opened exclusively needs no `-shm`. */
const WRITE_AHEAD = '-wal';
const LOGS = [WRITE_AHEAD, '-journal'];

export class StoreFile {
  readonly #path: string;
  readonly #session: string;
  #place: StoreFileState = { tag: 'unopened' };

  constructor(path: string, session: string) {
    this.#path = path;
    this.#session = session;
  }

  /** Call before opening. @throws ModeletError `store_unavailable` if a known store is missing, empty or incomplete. */
  checkKnown(): void {
    const known = readMarker(this.#marker);
    if (!known) return;
    const file = find(this.#path);
    if (!file) throw this.#lost('is missing');
    if (file.bytes === 0n) throw this.#lost('is empty');
    if (known.session === this.#session && known.file !== file.id) throw this.#lost('is not the same file as before');
    if (known.needsLog === true && !find(this.#path + WRITE_AHEAD)) throw this.#lost(`lacks its log ${WRITE_AHEAD}`);
  }

  /** Call after opening and the first write. @throws if the file is missing, or the marker cannot be written. */
  opened(): void {
    const file = find(this.#path);
    if (!file) throw this.#lost('is missing');
    const logs = LOGS.flatMap((log) => {
      const found = find(this.#path + log);
      return found ? [[log, found.id] as const] : [];
    });
    this.#place = { tag: 'open', file, logs: new Map(logs) };
    this.#mark(file, this.#place.logs.has(WRITE_AHEAD));
  }

  /** @throws ModeletError `store_unavailable` while the files differ from those opened. */
  check(): void {
    if (this.#place.tag === 'unopened') return;
    const opened = this.#place.tag === 'open' ? this.#place : this.#place.opened;
    const change = this.#changeSince(opened);
    if (change === null) {
      this.#place = opened;
      return;
    }
    if (this.#place.tag === 'open') this.#lose(opened);
    throw this.#lost(change);
  }

  /** Whether the file is lost and its marker was deleted: the next process opens the file there, or creates one. */
  get isGivenUp(): boolean {
    return this.#place.tag === 'lost' && !existsSync(this.#marker);
  }

  /** Call before closing, which merges the log into the file and deletes the log. */
  closing(): void {
    if (this.#place.tag === 'unopened') return;
    const { file } = this.#place.tag === 'open' ? this.#place : this.#place.opened;
    if (find(this.#path)?.id === file.id) this.#mark(file, false);
  }

  get #marker(): string {
    return `${this.#path}.known`;
  }

  #changeSince({ file, logs }: Extract<StoreFileState, { tag: 'open' }>): string | null {
    const found = find(this.#path);
    if (!found) return 'is missing';
    if (found.id !== file.id) return 'is not the same file as before';
    if (found.bytes < file.bytes) return 'has become shorter';
    for (const [log, id] of logs) if (find(this.#path + log)?.id !== id) return `lacks its log ${log}`;
    return null;
  }

  /** Restores the marker: one command may have deleted it with the file, which is no request for a new store. */
  #lose(opened: Extract<StoreFileState, { tag: 'open' }>): void {
    if (!existsSync(this.#marker)) this.#mark(opened.file, opened.logs.has(WRITE_AHEAD));
    this.#place = { tag: 'lost', opened };
  }

  #mark({ id }: FoundFile, needsLog: boolean): void {
    const known: MarkerContent = { session: this.#session, file: id, needsLog };
    mkdirSync(dirname(this.#marker), { recursive: true, mode: 0o700 });
    const marker = openSync(this.#marker, 'w', 0o600);
    try {
      writeSync(marker, `${JSON.stringify(known)}\n`);
      fsyncSync(marker);
    } finally {
      closeSync(marker);
    }
  }

  #lost(change: string): Error {
    const remedy = `put back the file that was there; or delete ${this.#marker} to use the present file, or a new one if it is missing`;
    return storeError(this.#path, 'lost', `${change}: ${remedy}`);
  }
}

function find(path: string): FoundFile | null {
  try {
    const { dev, ino, size } = statSync(path, { bigint: true });
    return { id: `${dev}:${ino}`, bytes: size };
  } catch {
    return null;
  }
}

/** Returns null without a marker. An unreadable marker still records that a store exists. */
function readMarker(path: string): MarkerContent | null {
  if (!existsSync(path)) return null;
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as MarkerContent | null) ?? {};
  } catch {
    return {};
  }
}
