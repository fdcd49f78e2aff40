/** What a worker says of the memory and the time that it takes: often enough for people, and nothing per item. */
import { performance } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';
import type { Clock, Deadline, Timer } from '../core/clock.ts';
import type { WorkerUsage } from '../core/model.ts';

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
    return { rssBytes: process.memoryUsage.rss(), cpuMs: (user + system) / 1000 };
  }
  const { heapTotal, external } = process.memoryUsage();
  return { rssBytes: heapTotal + external, cpuMs: performance.eventLoopUtilization().active };
}
