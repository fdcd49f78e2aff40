/**
 * Gives memory back when much has gone through this process and nothing does any more. V8 collects garbage as memory is
 * asked for: a process that goes quiet after large payloads asks for none, and would keep them for good.
 *
 *   resting   less than MUCH has gone through since the last collection  -> watching
 *   watching  looks again after a while              -> watching (more has gone through) | resting (collected)
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Clock, systemClock } from '../../core/clock.ts';

/** Bytes, of both ways, after which it pays. */
const MUCH = 32 * 1024 * 1024;
/** Milliseconds from one look to the next. */
const LOOK_MS = 1000;
/** Bytes that may go through in that time while it counts as quiet: a few requests do not make V8 collect. */
const LITTLE = 256 * 1024;

export class QuietCollection {
  readonly #clock: Clock;
  readonly #isSending: () => boolean;
  readonly #collect: () => void;
  #state: 'resting' | 'watching' = 'resting';
  /** Bytes since the last collection. */
  #passed = 0;

  /** @param isSending whether something has been written that is still to leave. */
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

/** Node.js offers it only where it was started so, which would show in the modelet's process, too. */
function collectGarbage(): void {
  if (!gc) {
    setFlagsFromString('--expose-gc');
    gc = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
  }
  gc();
}
