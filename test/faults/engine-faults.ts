/** Faults of the engine process. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { isAlive } from '../fixtures/alive.ts';
import { until } from '../fixtures/polling.ts';
import { kill9, startedProcesses } from '../fixtures/processes.ts';
import type { FaultGroup } from './fault.ts';
import { assertFails, type ServiceBed, type ServiceFault } from './service-bed.ts';

const KILLS = 3;
const MEGABYTE = 1024 * 1024;
/** Together about as much as is let in. */
const LARGE = { count: 16, atOnce: 8, bytes: 60 * MEGABYTE, limitMs: 300_000 } as const;

const LOST: Omit<ServiceFault, 'name' | 'inject'> = {
  requests: 'all open ones: `engine_lost`, at once; those that come meanwhile wait for the new engine',
  recovery: 'a new engine with new workers, at once',
  codes: ['engine_lost'],
  concernsAll: true,
  mostFailed: Number.POSITIVE_INFINITY,
};

export const ENGINE_FAULTS: FaultGroup<ServiceFault> = {
  title: 'The engine process',
  faults: [
    { ...LOST, name: 'kill -9', inject: async (bed) => kill9(bed.service.enginePid) },
    {
      ...LOST,
      name: 'kill -9 again and again',
      requests: 'all open ones, and those that come while it pauses before a further start: `engine_lost`',
      recovery: 'a new engine each time, after pauses that grow',
      inject: async (bed) => {
        for (let kill = 1; kill <= KILLS; kill += 1) {
          await bed.service.ready();
          await bed.load.served();
          kill9(bed.service.enginePid);
          await until('it is started again', () => bed.service.service.snapshot().engine.restarts === kill);
        }
      },
    },
    { ...LOST, name: 'out of memory', inject: runOutOfMemory },
    {
      name: `${LARGE.count} payloads of ${LARGE.bytes / MEGABYTE} MB, ${LARGE.atOnce} at a time`,
      requests: 'none: small ones pass the large ones, which are all answered',
      recovery: 'the engine lives on; what it takes and sends shows that it does not hang',
      // Less memory for queues would refuse some of them.
      config: { maxQueueBytes: 4096 * MEGABYTE },
      inject: sendLargePayloads,
    },
    {
      ...LOST,
      name: 'stands still (SIGSTOP), while large payloads are on their way to it',
      requests: 'all open ones: `engine_lost`, after 10 s; those that come meanwhile wait for the new engine',
      recovery: 'it is killed with its workers; a new engine, at once',
      inject: async (bed) => {
        process.kill(bed.service.enginePid, 'SIGSTOP');
        const large = Array.from({ length: LARGE.atOnce }, () => bed.ask(Buffer.alloc(LARGE.bytes), 'beside'));
        for (const asked of large) await assertFails(asked, 'engine_lost', /did not answer for \d+ s/);
      },
    },
    {
      ...LOST,
      name: 'stands still (SIGSTOP), while a worker spins in synchronous code',
      requests: 'all open ones: `engine_lost`, after 10 s; those that come meanwhile wait for the new engine',
      recovery: 'it is killed with its workers; a new engine, at once',
      inject: async (bed) => {
        const spinning = bed.poison('spin');
        await until('a worker spins', () => bed.service.logs.some(({ message }) => message === 'has come to spin'));
        const old = startedProcesses();
        process.kill(bed.service.enginePid, 'SIGSTOP');
        await assertFails(spinning, 'engine_lost', /did not answer for \d+ s/);
        await until('the old engine and its workers are gone', () => old.every(({ pid }) => !isAlive(pid)));
      },
    },
  ],
};

async function sendLargePayloads(bed: ServiceBed): Promise<void> {
  const engine = bed.service.enginePid;
  const bytes = Buffer.alloc(LARGE.bytes, 7);
  let left: number = LARGE.count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const { code, error, value } = await bed.ask(bytes, 'beside', LARGE.limitMs).answer;
      assert.equal(code, 'ok', error?.message);
      assert.ok(bytes.equals(value as Buffer), 'it is answered with its own bytes');
    }
  };
  await Promise.all(Array.from({ length: LARGE.atOnce }, lane));
  assert.equal(bed.service.enginePid, engine, 'the engine lives on');
}

/** Grants the engine no more memory than it has, and sends it requests that it has no room for. */
async function runOutOfMemory(bed: ServiceBed): Promise<void> {
  const pid = bed.service.enginePid;
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[0]);
  const pageBytes = Number(execFileSync('getconf', ['PAGESIZE']));
  execFileSync('prlimit', ['--pid', String(pid), `--as=${pages * pageBytes + MEGABYTE}`]);
  const large = Buffer.alloc(LARGE.bytes);
  for (let sent = 0; sent < LARGE.atOnce; sent += 1) bed.ask(large, 'beside');
  await until('it has died of that', () => !isAlive(pid));
}
