/**
 * The file of a store as its folder has it. SQLite holds its files open and goes on with them when somebody deletes them
 * or puts others in their place: all that it writes from then on is lost with its process. So they are looked at before
 * and after each write.
 *
 * A marker beside the file says that there is a store. A file that is missing then is a loss and no first start: it is
 * made anew only when the marker, too, has been deleted, which is how people say that they want that.
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { storeError } from './sqlite.ts';

/** As the marker has it. */
interface Known {
  /** Of the owner that has opened the file last. */
  readonly session?: unknown;
  /** Which file that was. */
  readonly file?: unknown;
  /** Items may be in the log beside the file and nowhere else: its owner has not closed it. */
  readonly needsLog?: unknown;
}

/** Of a file that is there. */
interface Found {
  /** Differs for another file in the same place. */
  readonly id: string;
  readonly bytes: bigint;
}

type Place =
  | { readonly tag: 'unopened' }
  | { readonly tag: 'open'; readonly file: Found; readonly logs: ReadonlyMap<string, string> }
  /** Not as it was opened, and a marker is there that people can delete. */
  | { readonly tag: 'lost'; readonly opened: Extract<Place, { tag: 'open' }> };

/** The logs of SQLite: which of them there is depends on its version. It needs no `-shm` for a file that it has alone. */
const WRITE_AHEAD = '-wal';
const LOGS = [WRITE_AHEAD, '-journal'];

export class StoreFile {
  readonly #path: string;
  readonly #session: string;
  #place: Place = { tag: 'unopened' };

  constructor(path: string, session: string) {
    this.#path = path;
    this.#session = session;
  }

  /** Before it is opened. @throws ModeletError `store_unavailable` where that would begin a known store anew. */
  checkKnown(): void {
    const known = readMarker(this.#marker);
    if (!known) return;
    const file = find(this.#path);
    if (!file) throw this.#lost('is missing');
    if (file.bytes === 0n) throw this.#lost('is empty');
    if (known.session === this.#session && known.file !== file.id) throw this.#lost('is another file than before');
    if (known.needsLog === true && !find(this.#path + WRITE_AHEAD)) throw this.#lost(`lacks its log ${WRITE_AHEAD}`);
  }

  /** It has been opened, and written to once. @throws where the marker cannot be written. */
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

  /** @throws ModeletError `store_unavailable` while it is not what was opened. */
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

  /** It is lost, and somebody has deleted the marker since: whoever opens it next takes what is there, or begins anew. */
  get isGivenUp(): boolean {
    return this.#place.tag === 'lost' && !existsSync(this.#marker);
  }

  /** Before it is closed, which takes the log into the file and deletes it. */
  closing(): void {
    if (this.#place.tag === 'unopened') return;
    const { file } = this.#place.tag === 'open' ? this.#place : this.#place.opened;
    if (find(this.#path)?.id === file.id) this.#mark(file, false);
  }

  get #marker(): string {
    return `${this.#path}.known`;
  }

  #changeSince({ file, logs }: Extract<Place, { tag: 'open' }>): string | null {
    const found = find(this.#path);
    if (!found) return 'is missing';
    if (found.id !== file.id) return 'is another file than before';
    if (found.bytes < file.bytes) return 'has been cut';
    for (const [log, id] of logs) if (find(this.#path + log)?.id !== id) return `lacks its log ${log}`;
    return null;
  }

  /** The marker may be gone with the file, by one and the same command: that is no wish to begin anew. */
  #lose(opened: Extract<Place, { tag: 'open' }>): void {
    if (!existsSync(this.#marker)) this.#mark(opened.file, opened.logs.has(WRITE_AHEAD));
    this.#place = { tag: 'lost', opened };
  }

  #mark({ id }: Found, needsLog: boolean): void {
    const known: Known = { session: this.#session, file: id, needsLog };
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
    const remedy = `put back what was there, or delete ${this.#marker} to take what is there or begin anew`;
    return storeError(this.#path, 'lost', `${change}: ${remedy}`);
  }
}

function find(path: string): Found | null {
  try {
    const { dev, ino, size } = statSync(path, { bigint: true });
    return { id: `${dev}:${ino}`, bytes: size };
  } catch {
    return null;
  }
}

/** Null where there is none; one that cannot be read says as much as that there is a store. */
function readMarker(path: string): Known | null {
  if (!existsSync(path)) return null;
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as Known | null) ?? {};
  } catch {
    return {};
  }
}
