/** The SQL of an embedded queue. Its conditions must match the partial indexes in sqlite-schema.ts word for word. */
import { WAITING_ORDER } from '../../../core/queues/priority-heap.ts';
import type { Database, Statement } from './sqlite.ts';
import { NO_DEADLINE, STATE } from './sqlite-schema.ts';

const WAITS = `(state = ${STATE.ready} OR state = ${STATE.delayed})`;

const READY = `SELECT seq FROM item WHERE state = ${STATE.ready} AND alone = 0 AND deadline > ?
  ORDER BY ${WAITING_ORDER} LIMIT ?`;
const READY_ALONE = `SELECT seq FROM item WHERE state = ${STATE.ready} AND alone = 1 AND deadline > ?
  ORDER BY attempts, seq LIMIT 1`;
const EXPIRED = `SELECT seq FROM item WHERE deadline < ${NO_DEADLINE} AND deadline <= ? AND ${WAITS}
  ORDER BY deadline, seq LIMIT ?`;
/** Values: token, end of the lease, its length; then the values of `choice`. */
const lease = (choice: string): string =>
  `UPDATE item SET state = ${STATE.leased}, token = ?, until = ?, lease_ms = ? WHERE seq IN (${choice}) RETURNING *`;

/** `attempts` in SQL is the value before the statement. */
const place = (attempts: string, otherwise: string): string =>
  `state = CASE WHEN ${attempts} >= ? THEN ${STATE.dead} ELSE ${otherwise} END`;

const SQL = {
  begin: 'BEGIN IMMEDIATE',
  commit: 'COMMIT',
  rollback: 'ROLLBACK',

  /** Values: id, priority, deadline, time of day, codec, payload, its checksum. Does nothing for an existing id. */
  insert: `INSERT INTO item (id, priority, deadline, enqueued_at, codec, payload, crc) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO NOTHING`,
  waiting: `SELECT count(*) AS waiting FROM item WHERE ${WAITS}`,

  claim: lease(READY),
  claimAlone: lease(READY_ALONE),
  claimExpired: lease(EXPIRED),
  claimed: `SELECT * FROM item WHERE state = ${STATE.leased} AND token = ?`,
  /** Number of leased items, and of those claimed alone. */
  leased: `SELECT count(*) AS leased, total(alone) AS alone FROM item WHERE state = ${STATE.leased}`,
  isAloneReady: `SELECT EXISTS (${READY_ALONE}) AS found`,

  endDelays: `UPDATE item SET state = ${STATE.ready} WHERE state = ${STATE.delayed} AND until <= ?`,
  /** Values: reason, most attempts, now. */
  endLeases: `UPDATE item SET attempts = attempts + 1, alone = 1, token = NULL, reason = ?,
    ${place('attempts + 1', String(STATE.ready))} WHERE state = ${STATE.leased} AND until <= ? RETURNING state`,

  extend: `UPDATE item SET until = ?, lease_ms = ? WHERE id = ? AND state = ${STATE.leased} AND token = ?`,
  take: `DELETE FROM item WHERE id = ? AND state = ${STATE.leased} AND token = ? RETURNING attempts`,
  /** Values: attempts to add, the same, most attempts, state, until, alone, reason, id, token. */
  nack: `UPDATE item SET attempts = attempts + ?, ${place('attempts + ?', '?')},
    until = ?, alone = max(alone, ?), reason = ? WHERE id = ? AND state = ${STATE.leased} AND token = ?
    RETURNING state`,
  bury: `UPDATE item SET state = ${STATE.dead}, reason = ? WHERE id = ? AND state = ${STATE.leased} AND token = ?`,
  stateOfSettled: 'SELECT state FROM item WHERE id = ? AND token = ?',

  redriveAll: `UPDATE item SET state = ${STATE.ready}, attempts = 0 WHERE state = ${STATE.dead}`,
  redrive: `UPDATE item SET state = ${STATE.ready}, attempts = 0 WHERE id = ? AND state = ${STATE.dead}`,
  withdraw: `DELETE FROM item WHERE id = ? AND state <> ${STATE.leased} RETURNING attempts, state`,
  find: 'SELECT state, attempts, reason FROM item WHERE id = ?',

  /** Values: id, ok, codec, payload, its checksum, attempts, reason, token, end. */
  record: 'INSERT OR REPLACE INTO outcome VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  outcome: 'SELECT * FROM outcome WHERE id = ? AND expires_at > ?',
  forget: `DELETE FROM outcome WHERE id IN (SELECT id FROM outcome WHERE expires_at <= ? LIMIT ?)`,

  counts: 'SELECT state, count(*) AS count FROM item GROUP BY state',
  oldest: `SELECT enqueued_at FROM item WHERE ${WAITS} ORDER BY seq LIMIT 1`,
  dead: `SELECT id, attempts, reason FROM item WHERE state = ${STATE.dead} ORDER BY seq DESC LIMIT ?`,
  firstDelay: `SELECT min(until) AS at FROM item WHERE state = ${STATE.delayed}`,
  firstLease: `SELECT min(until) AS at FROM item WHERE state = ${STATE.leased}`,
  firstDeadline: `SELECT min(deadline) AS at FROM item WHERE deadline < ${NO_DEADLINE} AND ${WAITS}`,

  session: 'SELECT session FROM owner',
  own: 'UPDATE owner SET session = ?',
  /** For the same owner after a restart: its leases start again, on the current clock. */
  renewLeases: `UPDATE item SET until = ? + lease_ms WHERE state = ${STATE.leased}`,
  /** Values: reason, most attempts. Counts an attempt for an item claimed alone: it may have killed its owner. */
  dropLeases: `UPDATE item SET attempts = attempts + alone, token = NULL, reason = ?,
    ${place('attempts + alone', String(STATE.ready))}, alone = 1 WHERE state = ${STATE.leased}`,
  dropDelays: `UPDATE item SET state = ${STATE.ready} WHERE state = ${STATE.delayed}`,
};

export type Statements = Readonly<Record<keyof typeof SQL, Statement>>;

export function prepareStatements(database: Database): Statements {
  const entries = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)]);
  return Object.fromEntries(entries) as Statements;
}
