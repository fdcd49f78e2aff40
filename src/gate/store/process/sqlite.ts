/**
 * Opens Node's built-in SQLite if its version is usable, and translates its errors. Knows nothing of queues.
 *
 * Loads SQLite by name at run time, because Node 20 and its `@types/node` lack it.
 */
import { ModeletError } from '../../../core/errors.ts';
import { isAtLeast, type StoreFault, whyNoSqlite } from '../work-queue.ts';

export type SqlValue = number | string | Uint8Array | null;

export type Row = Readonly<Record<string, SqlValue>>;

export interface Statement {
  all(...values: SqlValue[]): Row[];
  get(...values: SqlValue[]): Row | undefined;
  run(...values: SqlValue[]): { readonly changes: number | bigint };
}

export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

interface SqliteModule {
  readonly DatabaseSync: new (path: string) => Database;
}

/** First SQLite version in which two connections cannot damage a file while its log is reset. */
const FIRST_SOUND_LOG = [3, 51, 3];

/** @throws ModeletError `config_invalid` on a Node without it. */
export function openDatabase(path: string): Database {
  const reason = whyNoSqlite();
  const sqlite = reason === null ? (process.getBuiltinModule('node:sqlite') as SqliteModule | undefined) : undefined;
  if (!sqlite) throw new ModeletError('config_invalid', reason ?? 'this Node.js was built without SQLite');
  return new sqlite.DatabaseSync(path);
}

/** Returns the write-ahead log (one fsync per commit) if it is sound, else the rollback journal, which costs more. */
export function soundJournal(database: Database): 'wal' | 'truncate' {
  const version = String(database.prepare('SELECT sqlite_version() AS version').get()?.['version']);
  return isAtLeast(version, FIRST_SOUND_LOG) ? 'wal' : 'truncate';
}

const FAULTS: ReadonlyMap<number, { readonly fault: StoreFault; readonly what: string }> = new Map([
  [5, { fault: 'locked', what: 'is in use by another process' }],
  [6, { fault: 'locked', what: 'is in use by another process' }],
  [8, { fault: 'read-only', what: 'cannot be written' }],
  [10, { fault: 'full', what: 'cannot be written or read' }],
  [11, { fault: 'corrupt', what: 'is damaged' }],
  [13, { fault: 'full', what: 'cannot grow: the disk is full' }],
  [14, { fault: 'unreadable', what: 'cannot be opened' }],
  [26, { fault: 'corrupt', what: 'is damaged, or is not a database' }],
]);

/** Builds a `store_unavailable` that names the file and the problem. Nothing repairs or recreates a file by itself. */
export function storeError(file: string, fault: StoreFault, what: string, cause?: unknown): ModeletError {
  const error = new ModeletError('store_unavailable', `the store ${file} ${what}`, { cause });
  return Object.assign(error, { fault });
}

/** Turns an error of SQLite into a `store_unavailable`; returns any other error unchanged. */
export function asStoreError(thrown: unknown, file: string): unknown {
  const { errcode, code, message } = thrown as { errcode?: number; code?: string; message?: string };
  if (code !== 'ERR_SQLITE_ERROR' || errcode === undefined) return thrown;
  // The low byte is the kind of error; the other bytes hold details.
  const known = FAULTS.get(errcode & 0xff);
  return known ? storeError(file, known.fault, `${known.what}: ${message}`, thrown) : thrown;
}
