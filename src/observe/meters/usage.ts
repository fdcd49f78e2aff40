/** What a worker says of the memory and the time that it takes: often enough for people, and nothing per item. */
import { performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import type { WorkerUsage } from '../../core/model.ts';

/** At most so often it is measured and told. */
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

  /** Something has run: tells what that took, now or when the interval is over. */
  note(): void {
    if (this.#clock.now() >= this.#dueAt) this.#report();
    else this.#timer ??= this.#clock.at(this.#dueAt, () => this.#report());
  }

  #report(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#dueAt = this.#clock.now() + INTERVAL_MS;
    this.#tell(measureUsage());
  }
}

/** Of a thread, its own heap and buffers: the rest of the process is not its own. */
function measureUsage(): WorkerUsage {
  if (isMainThread) {
    const { user, system } = process.cpuUsage();
    return { rssBytes: residentBytes(), cpuMs: (user + system) / 1000 };
  }
  // process.memoryUsage() has the same figures, and fails where the system does not tell the memory of the process.
  const { total_heap_size: heap, external_memory: external } = getHeapStatistics();
  return { rssBytes: heap + external, cpuMs: performance.eventLoopUtilization().active };
}

/** The memory that this process takes. Where the system does not tell it, as without /proc, the most that it ever took. */
export function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}
