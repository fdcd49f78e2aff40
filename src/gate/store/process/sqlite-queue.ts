/** The embedded queue: one file, one connection. Blocks while it writes, so it must not run in Node-RED's process. */
import {
  type Ack,
  type Cancelled,
  type Claim,
  type ClaimOptions,
  checkItems,
  type Enqueued,
  type HeldClaim,
  type ItemResult,
  isItemId,
  type Nacked,
  type NackOptions,
  type QueueItem,
  type QueueLimits,
  type QueueStats,
  type QueueTime,
  type StoreSpec,
  TOLD_DEAD_LETTERS,
  type WorkStore,
} from '../work-queue.ts';
import { asStoreError, type Database, type Row, type SqlValue, type Statement, storeError } from './sqlite.ts';
import { bytesOf, claimsOf, columnsOf, deadLetterOf, endedResult, isSound, openResult } from './sqlite-rows.ts';
import { NO_DEADLINE, openStore, STATE } from './sqlite-schema.ts';
import { prepareStatements, type Statements } from './sqlite-statements.ts';
import { StoreFile } from './store-file.ts';

/** An outcome to record; its token is null if the item was not claimed. */
type Ending = Pick<Ack, 'id' | 'ok' | 'result'> & { readonly token: string | null };

/** Most expired outcomes that each `enqueue` deletes. */
const FORGOTTEN_AT_ONCE = 256;

export class SqliteQueue implements WorkStore {
  readonly #file: string;
  readonly #place: StoreFile;
  readonly #time: QueueTime;
  readonly #database: Database;
  readonly #sql: Statements;
  #limits: QueueLimits;
  /** Number of waiting items; null if it must be counted again. */
  #waiting: number | null = null;
  #inTransaction = false;

  /** @throws ModeletError `store_unavailable`, or `config_invalid` on a Node without SQLite. */
  constructor({ file, session, limits }: StoreSpec, time: QueueTime) {
    this.#file = file;
    this.#time = time;
    this.#limits = limits;
    this.#place = new StoreFile(file, session);
    this.#place.checkKnown();
    this.#database = openStore(file);
    try {
      this.#sql = prepareStatements(this.#database);
      this.#begin(session);
      this.#place.opened();
    } catch (thrown) {
      this.#database.close();
      throw asStoreError(thrown, file);
    }
  }

  enqueue(items: readonly QueueItem[]): Enqueued[] {
    checkItems(items);
    return this.together(() => {
      this.#sql.forget.run(this.#time.wall(), FORGOTTEN_AT_ONCE);
      return items.map((item) => this.#enqueueOne(item));
    });
  }

  claim({ max, leaseMs, token, expired = false }: ClaimOptions): Claim[] {
    return this.#upToDate(() => {
      const before = this.#sql.claimed.all(token);
      if (before.length > 0) return this.#claims(before);
      const lease = [token, this.#time.now() + leaseMs, leaseMs];
      const rows = expired ? this.#sql.claimExpired.all(...lease, this.#time.wall(), max) : this.#claimDue(lease, max);
      this.#countWaiting(-rows.length);
      return this.#claims(rows);
    });
  }

  extend(held: readonly HeldClaim[], leaseMs: number): boolean[] {
    return this.#upToDate(() => {
      const until = this.#time.now() + leaseMs;
      return held.map(({ id, token }) => this.#sql.extend.run(until, leaseMs, id, token).changes === 1);
    });
  }

  ack(acks: readonly Ack[]): boolean[] {
    return this.#upToDate(() => acks.map((ack) => this.#ackOne(ack)));
  }

  nack(held: readonly HeldClaim[], { delayMs, reason, countAttempt, alone }: NackOptions): Nacked[] {
    const attempts = countAttempt ? 1 : 0;
    const counted = [attempts, attempts, this.#limits.maxAttempts];
    return this.#upToDate(() => {
      const state = delayMs > 0 ? STATE.delayed : STATE.ready;
      const changes = [state, this.#time.now() + delayMs, alone ? 1 : 0, bytesOf(reason)];
      return held.map(({ id, token }) => {
        const row = this.#sql.nack.get(...counted, ...changes, id, token);
        if (!row) return this.#settledBefore({ id, token });
        if (row['state'] === STATE.dead) return 'dead';
        this.#countWaiting(1);
        return 'again';
      });
    });
  }

  deadLetter(held: readonly HeldClaim[], reason: string): boolean[] {
    return this.#upToDate(() =>
      held.map(({ id, token }) => {
        const { changes } = this.#sql.bury.run(bytesOf(reason), id, token);
        return changes === 1 || this.#settledBefore({ id, token }) === 'dead';
      }),
    );
  }

  redrive(ids: readonly string[] | null): number {
    return this.together(() => {
      const runs = ids ? ids.filter(isItemId).map((id) => this.#sql.redrive.run(id)) : [this.#sql.redriveAll.run()];
      const driven = runs.reduce((sum, { changes }) => sum + Number(changes), 0);
      this.#countWaiting(driven);
      return driven;
    });
  }

  cancel(id: string): Cancelled {
    if (!isItemId(id)) return 'unknown';
    return this.#upToDate(() => {
      const row = this.#sql.withdraw.get(id);
      if (!row) return this.#sql.find.get(id) ? 'running' : 'unknown';
      if (row['state'] !== STATE.dead) this.#countWaiting(-1);
      this.#record({ id, token: null, ok: false, result: null }, Number(row['attempts']), 'cancelled');
      return 'cancelled';
    });
  }

  result(id: string): ItemResult | null {
    if (!isItemId(id)) return null;
    return this.#upToDate(() => {
      const ended = this.#sql.outcome.get(id, this.#time.wall());
      if (ended) return this.#endedResult(ended);
      const row = this.#sql.find.get(id);
      return row ? openResult(row) : null;
    });
  }

  stats(): QueueStats {
    return this.#upToDate(() => {
      const counts = new Map(this.#sql.counts.all().map(({ state, count }) => [Number(state), Number(count)]));
      const oldest = this.#sql.oldest.get();
      return {
        ready: counts.get(STATE.ready) ?? 0,
        leased: counts.get(STATE.leased) ?? 0,
        delayed: counts.get(STATE.delayed) ?? 0,
        dead: counts.get(STATE.dead) ?? 0,
        oldestMs: oldest ? Math.max(0, this.#time.wall() - Number(oldest['enqueued_at'])) : 0,
        wakeInMs: this.#wakeInMs(),
        deadLetters: this.#sql.dead.all(TOLD_DEAD_LETTERS).map(deadLetterOf),
      };
    });
  }

  configure(limits: QueueLimits): void {
    this.#limits = limits;
  }

  close(): void {
    this.#place.closing();
    this.#database.close();
  }

  get file(): string {
    return this.#file;
  }

  /** Whether the file was lost and its marker then deleted: people accept the file that is there now, or a new one. */
  get isGivenUp(): boolean {
    return this.#place.isGivenUp;
  }

  together<T>(work: () => T): T {
    if (this.#inTransaction) return work();
    this.#place.check();
    try {
      this.#sql.begin.run();
      this.#inTransaction = true;
      const value = work();
      this.#sql.commit.run();
      // Only this check proves that the changes are in the file that the next start will open.
      this.#place.check();
      return value;
    } catch (thrown) {
      this.#rollBack();
      throw asStoreError(thrown, this.#file);
    } finally {
      this.#inTransaction = false;
    }
  }

  /** Runs `work` as one transaction, after all delays and leases that are due have ended. */
  #upToDate<T>(work: () => T): T {
    return this.together(() => {
      this.#moveOn();
      return work();
    });
  }

  #rollBack(): void {
    this.#waiting = null;
    try {
      this.#sql.rollback.run();
    } catch {
      // With a full disk SQLite has already rolled back; that error must not hide the cause.
    }
  }

  /** Takes over the items in the file. */
  #begin(session: string): void {
    this.together(() => {
      this.#sql.dropDelays.run();
      if (this.#sql.session.get()?.['session'] === session) this.#sql.renewLeases.run(this.#time.now());
      else this.#sql.dropLeases.run(bytesOf('its owner ended'), this.#limits.maxAttempts);
      // Always writes, because SQLite creates its log on the first write.
      this.#sql.own.run(session);
    });
  }

  /** Ends delays and leases that are due. */
  #moveOn(): void {
    const now = this.#time.now();
    this.#sql.endDelays.run(now);
    const ended = this.#sql.endLeases.all(bytesOf('its lease ended'), this.#limits.maxAttempts, now);
    this.#countWaiting(ended.filter(({ state }) => state === STATE.ready).length);
  }

  #enqueueOne({ id, payload, priority, deadline }: QueueItem): Enqueued {
    const wall = this.#time.wall();
    if (this.#sql.find.get(id) || this.#sql.outcome.get(id, wall)) return 'duplicate';
    this.#waiting ??= Number(this.#sql.waiting.get()?.['waiting']);
    if (this.#waiting >= this.#limits.capacity) return 'full';
    const due = deadline === null ? NO_DEADLINE : Math.round(deadline);
    this.#sql.insert.run(id, Math.round(priority), due, Math.round(wall), ...columnsOf(payload));
    this.#countWaiting(1);
    return 'new';
  }

  #claimDue(lease: readonly SqlValue[], max: number): Row[] {
    const wall = this.#time.wall();
    const { leased, alone } = this.#sql.leased.get() as Row;
    if (Number(alone) > 0) return [];
    if (this.#sql.isAloneReady.get(wall)?.['found'] === 1) {
      return Number(leased) > 0 || max < 1 ? [] : this.#sql.claimAlone.all(...lease, wall);
    }
    return this.#sql.claim.all(...lease, wall, max);
  }

  /** Returns the claims of the rows. Rows whose bytes have changed on disk become dead letters instead. */
  #claims(rows: readonly Row[]): Claim[] {
    for (const row of rows) {
      if (isSound(row)) continue;
      this.#sql.bury.run(bytesOf('its bytes have changed on disk'), row['id'] as string, row['token'] as string);
    }
    return claimsOf(rows.filter(isSound));
  }

  #ackOne(ack: Ack): boolean {
    const row = this.#sql.take.get(ack.id, ack.token);
    if (!row) return this.#sql.outcome.get(ack.id, this.#time.wall())?.['token'] === ack.token;
    this.#record(ack, Number(row['attempts']) + 1, null);
    return true;
  }

  #record({ id, token, ok, result }: Ending, attempts: number, reason: string | null): void {
    const payload = result ? columnsOf(result) : [null, null, null];
    const end = Math.round(this.#time.wall() + this.#limits.resultTtlMs);
    this.#sql.record.run(id, ok ? 1 : 0, ...payload, attempts, reason === null ? null : bytesOf(reason), token, end);
  }

  #settledBefore({ id, token }: HeldClaim): Nacked {
    const row = this.#sql.stateOfSettled.get(id, token);
    if (!row) return 'lost';
    return row['state'] === STATE.dead ? 'dead' : 'again';
  }

  #endedResult(row: Row): ItemResult {
    if (isSound(row)) return endedResult(row);
    throw storeError(this.#file, 'corrupt', `is damaged: the result of ${row['id']} has changed`);
  }

  #wakeInMs(): number | null {
    const { firstDelay, firstLease, firstDeadline } = this.#sql;
    const inMs = (first: Statement, now: number): number[] => {
      const at = first.get()?.['at'];
      return typeof at === 'number' ? [Math.max(0, at - now)] : [];
    };
    const [now, wall] = [this.#time.now(), this.#time.wall()];
    const all = [...inMs(firstDelay, now), ...inMs(firstLease, now), ...inMs(firstDeadline, wall)];
    return all.length === 0 ? null : Math.min(...all);
  }

  #countWaiting(change: number): void {
    if (this.#waiting !== null) this.#waiting += change;
  }
}
