/** Reports a worker's memory and processor time: often enough for people, and without work per item. */
import { performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import type { WorkerUsage } from '../../core/model.ts';

/** Shortest interval between two reports. */
const INTERVAL_MS = 1000;

export class UsageReporter {
  readonly #clock: Clock;
  readonly #tell: (usage: WorkerUsage) => void;
  #dueAt: Deadline = Number.NEGATIVE_INFINITY;
  #timer: Timer | null = null;

  constructor(clock: Clock, tell: (usage: WorkerUsage) => void) {
    this.#clock = clock;
    this.#tell = tell;
  }

  /** Reports the usage now or when the interval is over. Call after the worker has done some work. */
  note(): void {
    if (this.#clock.now() >= this.#dueAt) this.report();
    else this.#timer ??= this.#clock.at(this.#dueAt, () => this.report());
  }

  /** Reports the usage now, whenever the last report was. */
  report(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#dueAt = this.#clock.now() + INTERVAL_MS;
    this.#tell(measureUsage());
  }
}

/** Measures this process; for a thread, only its own heap and buffers, since the rest belongs to other threads. */
function measureUsage(): WorkerUsage {
  if (isMainThread) {
    const { user, system } = process.cpuUsage();
    return { rssBytes: residentBytes(), cpuMs: (user + system) / 1000 };
  }
  // process.memoryUsage() has the same figures but throws if the system does not report the memory of the process.
  const { total_heap_size: heap, external_memory: external } = getHeapStatistics();
  return { rssBytes: heap + external, cpuMs: performance.eventLoopUtilization().active };
}

/** Returns this process's resident memory, or its peak if the system does not report it, for example without /proc. */
export function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}
