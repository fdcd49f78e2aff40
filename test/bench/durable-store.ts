/** Part i: items through a durable store in batches, beside what SQLite itself takes for the same bytes and commits. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { QueueClient } from '../../src/gate/store/client/queue-client.ts';
import { openDatabase } from '../../src/gate/store/process/sqlite.ts';
import { SqliteQueue } from '../../src/gate/store/process/sqlite-queue.ts';
import { type QueueItem, type WorkQueue, whyNoSqlite } from '../../src/gate/store/work-queue.ts';
import { probeLauncher } from '../../src/process/parent/launch.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { local } from '../store/bed.ts';
import { interleave, median } from './measure.ts';
import { figure, type Part, type PartResult, ratio } from './report.ts';

const BATCH = 32;
const BATCHES = 100;
const BYTES = 1024;
const LIMITS = { capacity: 1_000_000, maxAttempts: 3, resultTtlMs: 1000 };
/** Batches that are asked for before the first is answered. */
const AT_ONCE = 4;

interface Speed {
  /** Items per second. */
  readonly stored: number;
  /** Claimed and ended. */
  readonly worked: number;
}

let made = 0;

function batch(): QueueItem[] {
  return Array.from({ length: BATCH }, () => {
    made += 1;
    const payload = { codec: CODEC.bytes, bytes: Buffer.alloc(BYTES, made) };
    return { id: `item-${made}`, payload, priority: 0, deadline: null };
  });
}

export const durableStore: Part = {
  letter: 'i',
  title: 'items through a durable store',
  async run({ rounds }): Promise<PartResult> {
    const reason = whyNoSqlite();
    if (reason !== null) {
      console.log(`Part i is left out: ${reason}\n`);
      return { tables: [], budgets: [] };
    }
    const folder = mkdtempSync(join(tmpdir(), 'modelet-bench-'));
    const file = (name: string): string => join(folder, `${name}.sqlite`);
    const spec = { session: 'bench', limits: LIMITS };
    const client = new QueueClient({
      file: file('client'),
      limits: LIMITS,
      launcher: await probeLauncher([]),
      allowedCpus: [],
      startAfter: Promise.resolve(),
      onChange: () => {},
      onLog: () => {},
    });
    const time = { now: () => performance.now(), wall: () => Date.now() };
    const inside = local(new SqliteQueue({ file: file('inside'), ...spec }, time));
    try {
      await client.stats();
      const speeds = await interleave(rounds, {
        raw: () => Promise.resolve(rawSpeed(file(`raw-${made}`))),
        inside: () => speedOf(inside, 1),
        client: () => speedOf(client, 1),
        several: () => speedOf(client, AT_ONCE),
      });
      return { tables: [table(speeds)], budgets: [] };
    } finally {
      await inside.close();
      await client.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};

type Subject = 'raw' | 'inside' | 'client' | 'several';

const NAMES: readonly (readonly [Subject, string])[] = [
  ['raw', 'a bare table in SQLite'],
  ['inside', 'the queue, in the process that asks'],
  ['client', 'the queue, in its own process'],
  ['several', `the same, ${AT_ONCE} batches asked for at a time`],
];

function table(speeds: Readonly<Record<Subject, readonly Speed[]>>): PartResult['tables'][number] {
  const of = (subject: Subject, what: keyof Speed): number => median(speeds[subject].map((speed) => speed[what]));
  const rawWorked = of('raw', 'worked');
  return {
    title: `i. Items of ${BYTES} bytes through a durable store, in batches of ${BATCH}`,
    columns: ['what', 'stored/s', 'claimed and ended/s', 'of the bare table'],
    rows: NAMES.map(([subject, name]) => {
      const worked = of(subject, 'worked');
      return [name, figure(of(subject, 'stored')), figure(worked), ratio(worked / rawWorked)];
    }),
    notes: [
      'Every batch is on disk (fsync) before the next is asked for. The bare table has an id, a state and the bytes; the queue has order, leases, tokens, checksums and an outcome for each item as well.',
    ],
  };
}

async function speedOf(queue: WorkQueue, atOnce: number): Promise<Speed> {
  const storedMs = await timed(() => repeat(atOnce, () => queue.enqueue(batch())));
  const workedMs = await timed(() =>
    repeat(atOnce, async () => {
      made += 1;
      const claims = await queue.claim({ max: BATCH, leaseMs: 60_000, token: `claim-${made}` });
      await queue.ack(claims.map(({ id, token }) => ({ id, token, ok: true, result: null })));
    }),
  );
  return speed(storedMs, workedMs);
}

/** So many at a time, until all batches have had their turn. */
async function repeat(atOnce: number, work: () => Promise<unknown>): Promise<void> {
  let left = BATCHES;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await work();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function speed(storedMs: number, workedMs: number): Speed {
  const perSecond = (ms: number): number => (BATCH * BATCHES * 1000) / ms;
  return { stored: perSecond(storedMs), worked: perSecond(workedMs) };
}

function rawSpeed(file: string): Speed {
  const database = openDatabase(file);
  database.exec('PRAGMA journal_mode = wal; PRAGMA synchronous = FULL; PRAGMA locking_mode = EXCLUSIVE');
  database.exec('CREATE TABLE item (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, state INTEGER, payload BLOB) STRICT');
  database.exec('CREATE INDEX ready ON item (seq) WHERE state = 0');
  const insert = database.prepare('INSERT INTO item (id, state, payload) VALUES (?, 0, ?)');
  const claim = database.prepare(
    'UPDATE item SET state = 1 WHERE seq IN (SELECT seq FROM item WHERE state = 0 ORDER BY seq LIMIT ?) RETURNING seq, payload',
  );
  const end = database.prepare('DELETE FROM item WHERE seq = ?');
  const together = (work: () => void): void => {
    database.exec('BEGIN IMMEDIATE');
    work();
    database.exec('COMMIT');
  };
  const startedAt = performance.now();
  for (let count = 0; count < BATCHES; count += 1) {
    together(() => {
      for (const { id, payload } of batch()) insert.run(id, payload.bytes);
    });
  }
  const storedAt = performance.now();
  for (let count = 0; count < BATCHES; count += 1) {
    let claimed: ReturnType<typeof claim.all> = [];
    together(() => {
      claimed = claim.all(BATCH);
    });
    together(() => {
      for (const { seq } of claimed) end.run(seq as number);
    });
  }
  const workedAt = performance.now();
  database.close();
  return speed(storedAt - startedAt, workedAt - storedAt);
}
