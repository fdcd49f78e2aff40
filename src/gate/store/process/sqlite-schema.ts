/** Opens the file of an embedded queue and defines its tables. */
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { WAITING_ORDER } from '../../../core/queues/priority-heap.ts';
import { asStoreError, type Database, openDatabase, soundJournal, storeError } from './sqlite.ts';

export const STATE = { ready: 0, leased: 1, dead: 2, delayed: 3 } as const;

/** Stands for no deadline, so that an index can order by it. */
export const NO_DEADLINE: number = Number.MAX_SAFE_INTEGER;

/** 'mdlq': marks a SQLite file as a store of this package. */
const APPLICATION_ID = 0x6d646c71;
const VERSION = 1;
/** A predecessor that was just killed may hold the file for a moment. */
const WAIT_FOR_LOCK_MS = 2000;

/**
 * Text from outside is stored in blobs: some versions of Node cut text at NUL, others crash on invalid UTF-8. Ids and
 * tokens are checked, so they can be text. Times of leases and delays are monotonic and valid until the file is next
 * opened; all other times are times of day.
 */
const TABLES = `
  CREATE TABLE item (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    state INTEGER NOT NULL DEFAULT ${STATE.ready},
    alone INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    enqueued_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    codec INTEGER NOT NULL,
    payload BLOB NOT NULL,
    crc INTEGER NOT NULL,
    token TEXT,
    until REAL,
    lease_ms REAL,
    reason BLOB
  ) STRICT;
  CREATE INDEX ready ON item (${WAITING_ORDER}) WHERE state = ${STATE.ready} AND alone = 0;
  CREATE INDEX ready_alone ON item (attempts, seq) WHERE state = ${STATE.ready} AND alone = 1;
  CREATE INDEX leased ON item (until) WHERE state = ${STATE.leased};
  CREATE INDEX leased_token ON item (token) WHERE state = ${STATE.leased};
  CREATE INDEX delayed ON item (until) WHERE state = ${STATE.delayed};
  CREATE INDEX dead ON item (seq) WHERE state = ${STATE.dead};
  CREATE INDEX due ON item (deadline) WHERE deadline < ${NO_DEADLINE};
  CREATE TABLE outcome (
    id TEXT PRIMARY KEY,
    ok INTEGER NOT NULL,
    codec INTEGER,
    payload BLOB,
    crc INTEGER,
    attempts INTEGER NOT NULL,
    reason BLOB,
    token TEXT,
    expires_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX expiry ON outcome (expires_at);
  CREATE TABLE owner (session TEXT NOT NULL) STRICT;
  INSERT INTO owner VALUES ('');
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${VERSION};
`;

/**
 * Opens the file for this process alone, and creates it if missing, readable by its user only.
 * @throws ModeletError `store_unavailable` for a file that is damaged, foreign, in use or not writable; the file stays
 * unchanged.
 */
export function openStore(file: string): Database {
  let database: Database | null = null;
  try {
    makeFile(file);
    database = openDatabase(file);
    database.exec(`PRAGMA busy_timeout = ${WAIT_FOR_LOCK_MS}; PRAGMA locking_mode = EXCLUSIVE`);
    // Takes the lock now rather than with the first item, and fails if the file is foreign or cannot be written.
    database.exec('BEGIN IMMEDIATE');
    prepareTables(database, file);
    database.exec('COMMIT');
    database.exec(`PRAGMA journal_mode = ${soundJournal(database)}; PRAGMA synchronous = FULL`);
    return database;
  } catch (thrown) {
    database?.close();
    throw asStoreError(thrown, file);
  }
}

function makeFile(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    closeSync(openSync(file, 'a', 0o600));
    chmodSync(file, 0o600);
  } catch (cause) {
    throw storeError(file, 'read-only', `cannot be written: ${(cause as Error).message}`, cause);
  }
}

function prepareTables(database: Database, file: string): void {
  const pragma = (name: string): unknown => Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0];
  const isNew = Number(database.prepare('SELECT count(*) AS found FROM sqlite_schema').get()?.['found']) === 0;
  if (isNew && pragma('application_id') === 0) {
    database.exec(TABLES);
    return;
  }
  if (pragma('application_id') !== APPLICATION_ID)
    throw storeError(file, 'foreign', 'is the database of another program');
  const version = pragma('user_version');
  if (version !== VERSION)
    throw storeError(file, 'foreign', `has version ${version}; this package reads version ${VERSION}`);
  const found = pragma('quick_check(1)');
  if (found !== 'ok') throw storeError(file, 'corrupt', `is damaged: ${found}`);
}
