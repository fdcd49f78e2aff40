/** What comes while flows start waits here, in the order in which it came, until they run. */
import type { NodeAPI } from 'node-red';
import { asError } from '../../core/errors.ts';
import { logFault } from '../log.ts';
import type { Done } from '../request/messages.ts';

/** Most messages that wait for flows to start; each is answered, more are refused. */
const MOST_WAITING = 10_000;

export class UntilRunning {
  readonly #RED: NodeAPI;
  #waiting: (() => void)[] = [];

  constructor(RED: NodeAPI) {
    this.#RED = RED;
  }

  /** No message is to be added. */
  get isFull(): boolean {
    return this.#waiting.length >= MOST_WAITING;
  }

  /** `done` hears of what `act` throws. */
  add(act: () => void, done?: Done): void {
    this.#waiting.push(() => this.safely(act, done));
  }

  /** Does all that waits. */
  wake(): void {
    for (const waiting of this.#waiting.splice(0)) waiting();
  }

  /** What it throws must not reach the channel that an outcome came by, nor Node-RED, nor what waits behind it. */
  safely(act: () => void, done?: Done): void {
    try {
      act();
    } catch (thrown) {
      logFault(this.#RED, 'a message could not be passed on', thrown);
      if (done) this.safely(() => done(asError(thrown)));
    }
  }
}
