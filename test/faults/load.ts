/** Steady load: lanes that each ask for one number after the other, and check that the answer is that number's. */
import { setTimeout as delay } from 'node:timers/promises';
import { until } from '../fixtures/polling.ts';

/** How a request ended: `ok`, an error code, or what the client saw where there was no answer. */
export interface Reply {
  readonly code: string;
  /** The number that a result is about. */
  readonly n?: unknown;
}

/** How many answers after a fault show that requests are served again. */
const SERVED_AGAIN = 50;
/** Between an answer and the next request of its lane: the load is steady, not all that the machine can bear. */
const PAUSE_MS = 5;
/** A caller that was refused asks again after this. */
const REFUSED_PAUSE_MS = 50;

export class Load {
  readonly #lanes: number;
  readonly #ask: (n: number) => Promise<Reply>;
  readonly #counts: Map<string, number> = new Map();
  #sent = 0;
  #answered = 0;
  #running: Promise<unknown> = Promise.resolve();
  #stopped = true;

  constructor(lanes: number, ask: (n: number) => Promise<Reply>) {
    this.#lanes = lanes;
    this.#ask = ask;
  }

  get sent(): number {
    return this.#sent;
  }

  get ok(): number {
    return this.#counts.get('ok') ?? 0;
  }

  /** Answers so far by code; `wrong answer` belongs to another request. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#counts);
  }

  /** Answers other than the right result. */
  get failed(): number {
    return this.#answered - this.ok;
  }

  start(): void {
    this.#stopped = false;
    this.#running = Promise.all(Array.from({ length: this.#lanes }, () => this.#lane()));
    // The caller of `stop` gets a failure.
    this.#running.catch(() => {});
  }

  /** Resolves when many more requests have got their results. */
  async served(): Promise<void> {
    const before = this.ok;
    const enough = (): boolean => this.#stopped || this.ok >= before + SERVED_AGAIN;
    await until('requests are served', enough);
  }

  /** Resolves when each request has its answer; fails if one never comes. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #lane(): Promise<void> {
    try {
      while (!this.#stopped) await this.#one();
    } finally {
      this.#stopped = true;
    }
  }

  async #one(): Promise<void> {
    this.#sent += 1;
    const n = this.#sent;
    const reply = await this.#ask(n);
    const code = reply.code === 'ok' && reply.n !== n ? 'wrong answer' : reply.code;
    this.#answered += 1;
    this.#counts.set(code, (this.#counts.get(code) ?? 0) + 1);
    await delay(code === 'ok' ? PAUSE_MS : REFUSED_PAUSE_MS);
  }
}
