/**
 * Collects garbage when this process becomes idle after much traffic. V8 collects garbage only when code allocates
 * memory, so a process that becomes idle after large payloads would never free them.
 *
 *   resting   less than MUCH transferred since the last collection  -> watching
 *   watching  checks again after LOOK_MS             -> watching (still busy) | resting (collected)
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Clock, systemClock } from '../../core/clock.ts';

/** Bytes, in both directions, after which a collection is worth its cost. */
const MUCH = 32 * 1024 * 1024;
/** Interval between two checks, in ms. */
const LOOK_MS = 1000;
/** Most bytes per interval at which the process counts as idle. A few requests do not make V8 collect. */
const LITTLE = 256 * 1024;

export class QuietCollection {
  readonly #clock: Clock;
  readonly #isSending: () => boolean;
  readonly #collect: () => void;
  #state: 'resting' | 'watching' = 'resting';
  /** Bytes since the last collection. */
  #passed = 0;

  /** @param isSending returns whether written data has not left this process yet. */
  constructor(isSending: () => boolean, collect: () => void = collectGarbage, clock: Clock = systemClock) {
    this.#isSending = isSending;
    this.#collect = collect;
    this.#clock = clock;
  }

  noteBytes(count: number): void {
    this.#passed += count;
    if (this.#passed >= MUCH && this.#state === 'resting') this.#watch();
  }

  #watch(): void {
    const seen = this.#passed;
    this.#state = 'watching';
    this.#clock.at(this.#clock.now() + LOOK_MS, () => {
      if (this.#isSending() || this.#passed - seen > LITTLE) {
        this.#watch();
        return;
      }
      this.#state = 'resting';
      this.#passed = 0;
      this.#collect();
    });
  }
}

let gc: (() => void) | null = null;

/** Collects garbage without starting Node.js with `--expose-gc`, which would also show in the modelet's process. */
function collectGarbage(): void {
  if (!gc) {
    setFlagsFromString('--expose-gc');
    gc = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
  }
  gc();
}
