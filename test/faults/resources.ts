/** The resources of a runtime: a difference between before and after a fault is a leak. */
import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';
import { PATIENCE_MS } from '../fixtures/polling.ts';
import { type FoundProcess, startedProcesses } from '../fixtures/processes.ts';

const POLL_MS = 25;
const REPEATS_AT_REST = 3;

export interface Resources {
  /** The running processes, in words, with their threads and open file descriptors; sorted. */
  readonly processes: readonly string[];
  /** This process: the server, where the test embeds it. */
  readonly own: Readonly<Record<string, number>>;
  readonly tempFiles: readonly string[];
  /** Requests open in the ledger, and items in queues. */
  readonly open: readonly number[];
}

// All that is started here inherits a separate folder for temporary files; nothing must stay in it.
const temporary = mkdtempSync(join(tmpdir(), 'modelet-faults-'));
process.env['TMPDIR'] = temporary;
process.on('exit', () => rmSync(temporary, { recursive: true, force: true }));
// Node reads these certificates in a thread while it starts, from a file that children inherit if they start meanwhile.
delete process.env['NODE_EXTRA_CA_CERTS'];

/** Timers of this process that have neither fired nor been cancelled, also those that do not keep it alive. */
const timers: Set<number> = new Set();
createHook({
  init: (id, type) => {
    if (type === 'Timeout') timers.add(id);
  },
  destroy: (id) => {
    timers.delete(id);
  },
}).enable();

/** `open`: open requests, as the runtime says. */
export function measure(open: readonly number[]): Resources {
  return {
    processes: startedProcesses().map(described).sort(),
    own: {
      ...counted(process.getActiveResourcesInfo()),
      timers: timers.size,
      threads: entries('/proc/self/task').length,
      descriptors: entries('/proc/self/fd').length,
      // One more per restart is how listeners leak.
      listeners: process.eventNames().reduce((sum, event) => sum + process.listenerCount(event), 0),
    },
    tempFiles: readdirSync(temporary),
    open,
  };
}

/** The value of `read` once no request is open and the value has stopped changing. */
export async function atRest(read: () => Promise<Resources>): Promise<Resources> {
  const end = performance.now() + PATIENCE_MS;
  let last = await read();
  for (let repeats = 0; repeats < REPEATS_AT_REST; ) {
    assert.ok(performance.now() < end, `it never comes to rest: ${inspect(last)}`);
    await delay(POLL_MS);
    const next = await read();
    const resting = next.open.every((count) => count === 0);
    repeats = resting && isDeepStrictEqual(next, last) ? repeats + 1 : 0;
    last = next;
  }
  return last;
}

/** Resolves when the runtime holds what it held before; fails with the difference if it never does. */
export async function assertSame(read: () => Promise<Resources>, before: Resources): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  let now = await read();
  while (!isDeepStrictEqual(now, before) && performance.now() < end) {
    await delay(POLL_MS);
    now = await read();
  }
  assert.deepEqual(now, before, 'after the fault it holds what it held before');
}

function described({ pid, command }: FoundProcess): string {
  const role = /\/(engine|worker)\/main\.js/.exec(command)?.[1] ?? command;
  return `${role}: ${threads(pid)} threads; ${inspect(descriptors(pid), { breakLength: Infinity })}`;
}

/** Threads of a process, without those for file access: libuv starts them all with the first access, and keeps them. */
function threads(pid: number): number {
  const tasks = `/proc/${pid}/task`;
  return entries(tasks).filter((task) => {
    try {
      return readFileSync(join(tasks, task, 'comm'), 'utf8').trim() !== 'libuv-worker';
    } catch {
      return false;
    }
  }).length;
}

/** The memory that an engine shares with its workers: each engine names it anew. */
const SLOTS = /^\/dev\/shm\/modelet-[\d-]+ \(deleted\)$/;

/** Open files by kind. V8 reads the map of the memory where a thread starts; a process that starts meanwhile inherits it. */
function descriptors(pid: number): Record<string, number> {
  const folder = `/proc/${pid}/fd`;
  const kinds = entries(folder).map((descriptor) => {
    try {
      return readlinkSync(join(folder, descriptor))
        .replace(/:\[\d+\]$/, '')
        .replace(SLOTS, 'slots');
    } catch {
      return 'closed meanwhile';
    }
  });
  return counted(kinds.filter((kind) => !/^\/proc\/\d+\/maps$/.test(kind)).sort());
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // It has just ended.
    return [];
  }
}

function counted(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
