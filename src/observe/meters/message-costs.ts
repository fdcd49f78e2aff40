/** The costs of a stage with whole messages besides its runs: what each run carries of its message and the context. */
import { systemClock } from '../../core/clock.ts';

export interface MessageCosts {
  readonly messages: number;
  /** Bytes to all runs besides their payloads, and bytes that came back, payloads included. */
  readonly bytesOut: number;
  readonly bytesBack: number;
  /** Node-RED's own time for both, in ms. */
  readonly ms: number;
}

export class MessageCostMeter {
  #messages = 0;
  #bytesOut = 0;
  #bytesBack = 0;
  #ms = 0;

  /** Since the deploy. */
  get reading(): MessageCosts {
    return { messages: this.#messages, bytesOut: this.#bytesOut, bytesBack: this.#bytesBack, ms: this.#ms };
  }

  /** Counts the message of a run, which `make` makes. */
  sent<T extends { readonly bytes: { readonly length: number } }>(make: () => T): T {
    const made = this.#timed(make);
    this.#messages += 1;
    this.#bytesOut += made.bytes.length;
    return made;
  }

  /** Counts what a run has made, which `take` does in Node-RED. */
  came<T>(bytes: number, take: () => T): T {
    this.#bytesBack += bytes;
    return this.#timed(take);
  }

  #timed<T>(work: () => T): T {
    const startedAt = systemClock.now();
    try {
      return work();
    } finally {
      this.#ms += systemClock.now() - startedAt;
    }
  }
}
