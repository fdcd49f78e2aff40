/**
 * Limits a child's output to the log: a modelet that prints in a loop must not flood Node-RED. `LINES_PER_SECOND` lines
 * pass in each second; one more line at the end of the second tells how many did not.
 */
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';
import type { LogLevel } from '../../core/model.ts';

export const LINES_PER_SECOND = 100;
const SECOND_MS = 1000;

type Second =
  | { readonly tag: 'passing'; readonly since: number; lines: number }
  | { readonly tag: 'hiding'; readonly timer: Timer; hidden: number };

export class LineLimit {
  readonly #write: (level: LogLevel, line: string) => void;
  readonly #clock: Clock;
  #second: Second = { tag: 'passing', since: Number.NEGATIVE_INFINITY, lines: 0 };

  constructor(write: (level: LogLevel, line: string) => void, clock: Clock = systemClock) {
    this.#write = write;
    this.#clock = clock;
  }

  /** Writes the line, or only counts it. */
  write(level: LogLevel, line: string): void {
    const second = this.#present();
    if (second.tag === 'hiding') {
      second.hidden += 1;
    } else if (second.lines < LINES_PER_SECOND) {
      second.lines += 1;
      this.#write(level, line);
    } else {
      const timer = this.#clock.at(second.since + SECOND_MS, () => this.tell());
      this.#second = { tag: 'hiding', timer, hidden: 1 };
    }
  }

  /** Writes the number of hidden lines now. */
  tell(): void {
    if (this.#second.tag === 'passing') return;
    const { timer, hidden } = this.#second;
    timer.cancel();
    this.#second = { tag: 'passing', since: this.#clock.now(), lines: 0 };
    this.#write('warn', `${hidden} more ${hidden === 1 ? 'line is' : 'lines are'} not shown`);
  }

  #present(): Second {
    const second = this.#second;
    const now = this.#clock.now();
    if (second.tag === 'passing' && now >= second.since + SECOND_MS) {
      this.#second = { tag: 'passing', since: now, lines: 0 };
    }
    return this.#second;
  }
}
