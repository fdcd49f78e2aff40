/**
 * Ends starts that hang. A start may take long as long as it gives signs of life: output, messages, bytes that it reads
 * or writes, memory that grows. So a download is not killed in the middle, and begun anew, for ever. A start that was
 * silent for too long may only be slow, so each failed one doubles the time of the next.
 */
import { readFileSync } from 'node:fs';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { duration } from '../../core/figures.ts';
import type { Child } from './child.ts';

/** The limit is never more than this many times the first one. */
const MOST_TIMES = 16;
/** A start is looked at this often within its limit, but not less often than after the second number, in ms. */
const LOOKS = 4;
const LONGEST_PAUSE_MS = 5000;
/** Bytes read, written or allocated since the last look that count as a sign of life. A waiting process has fewer. */
const GROWTH_BYTES = 64 * 1024;

interface Start {
  readonly child: Child;
  readonly begunAt: number;
  livedAt: number;
  signs: number;
  bytes: number;
}

export class StartLimit {
  readonly #firstMs: number;
  /** Names the setting in the message; blank if users cannot set the limit. */
  readonly #setting: string;
  readonly #clock: Clock;
  readonly #onLook: () => void;
  #silentStarts = 0;
  #timer: Timer | null = null;

  /** @param onLook called while a start takes long, so that its time is displayed */
  constructor(firstMs: number, setting: string, clock: Clock, onLook: () => void) {
    this.#firstMs = firstMs;
    this.#setting = setting === '' ? '' : ` (${setting})`;
    this.#clock = clock;
    this.#onLook = onLook;
  }

  /** Watches the start of a child, and kills it if it is silent for too long. */
  begin(child: Child): void {
    const now = this.#clock.now();
    this.#look({ child, begunAt: now, livedAt: now, signs: child.signs, bytes: 0 });
  }

  /** Ends the watch: the child is ready, or has ended. */
  end(isReady: boolean): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (isReady) this.#silentStarts = 0;
  }

  get #limitMs(): number {
    return this.#firstMs * Math.min(MOST_TIMES, 2 ** this.#silentStarts);
  }

  #look(start: Start): void {
    const pause = Math.min(LONGEST_PAUSE_MS, this.#limitMs / LOOKS);
    const next: Deadline = Math.min(this.#clock.now() + pause, start.livedAt + this.#limitMs);
    this.#timer = this.#clock.at(next, () => {
      this.#timer = null;
      const now = this.#clock.now();
      this.#noteSigns(start, now);
      this.#onLook();
      // The same sum as in `next`: a difference could be smaller by a rounding error, and the look would be at once again.
      if (now < start.livedAt + this.#limitMs) this.#look(start);
      else this.#endSilent(start, now);
    });
  }

  #noteSigns(start: Start, now: number): void {
    const { child } = start;
    const bytes = bytesOf(child.pid);
    if (child.signs === start.signs && bytes < start.bytes + GROWTH_BYTES) return;
    start.livedAt = now;
    start.signs = child.signs;
    start.bytes = Math.max(bytes, start.bytes);
  }

  #endSilent({ child, begunAt, livedAt }: Start, now: number): void {
    const limit = `was not ready within ${this.#limitMs} ms${this.#setting}`;
    const since = livedAt > begunAt ? `, the last sign of progress ${duration(now - livedAt)} ago` : '';
    this.#silentStarts += 1;
    const next = `the next try has ${duration(this.#limitMs)}`;
    child.kill(new Error(`${limit}: ${duration(now - begunAt)} so far${since}; ${next}`));
  }
}

/** Returns how many bytes a process has read, written and allocated; 0 if the system does not tell, and for a thread. */
function bytesOf(pid: number | null): number {
  if (pid === null || pid === process.pid) return 0;
  try {
    const io = readFileSync(`/proc/${pid}/io`, 'utf8');
    const passed = [...io.matchAll(/^[rw]char: (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
    const peakKb = Number(/^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
    return passed + peakKb * 1024;
  } catch {
    return 0;
  }
}
