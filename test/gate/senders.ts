/**
 * Senders that never stop, a server that takes so much at a time and queues the rest, and a metric of it that is
 * seconds old: under one gate or another, in simulated time.
 */
import { setImmediate } from 'node:timers/promises';
import { compileGate } from '../../src/config/compile-gate.ts';
import { Gate } from '../../src/gate/gate.ts';
import type { BudgetSource } from '../../src/gate/source.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

export interface Scene {
  readonly senders: number;
  /** Others that never stop and ask no gate: interactive traffic. */
  readonly others: number;
  /** Capacity of the server; further requests wait in its queue, and count as saturation. */
  readonly maxSys: number;
  /** Saturation from which nothing more is to be sent. */
  readonly threshold: number;
  /** From one scrape of the metric to the next, in ms: so old a reading may be. */
  readonly scrapeMs: number;
  readonly pollMs: number;
  /** Least and most time that a request takes, in ms, once it is not queued any more. */
  readonly serviceMs: readonly [number, number];
  /** Simulated time, in ms. */
  readonly forMs: number;
}

export interface Usage {
  /** Saturation over time: all that is at the server, by what it takes at a time. */
  readonly average: number;
  readonly highest: number;
  /** The same in requests. */
  readonly mostInFlight: number;
  readonly finished: number;
}

/** Lets a sender through when it may; the sender calls `leave` once it has its answer. */
export type Entry = (go: (leave: () => void) => void) => void;

export type MakeEntry = (server: Server, clock: FakeClock, scene: Scene) => Entry;

export class Server {
  mostInFlight = 0;
  finished = 0;
  inFlight = 0;
  /** As it was at the last scrape. */
  scraped = 0;
  readonly #clock: FakeClock;
  readonly #scene: Scene;
  readonly #queue: (() => void)[] = [];
  #running = 0;
  #area = 0;
  #since: number;
  #random = 1;

  constructor(clock: FakeClock, scene: Scene) {
    this.#clock = clock;
    this.#scene = scene;
    this.#since = clock.now();
  }

  /** Now, and from now on at every interval. */
  scrape(): void {
    this.scraped = this.inFlight / this.#scene.maxSys;
    this.#clock.at(this.#clock.now() + this.#scene.scrapeMs, () => this.scrape());
  }

  /** Time in requests x ms. */
  get area(): number {
    return this.#area + this.inFlight * (this.#clock.now() - this.#since);
  }

  take(answer: () => void): void {
    this.#count(1);
    if (this.#running < this.#scene.maxSys) this.#run(answer);
    else this.#queue.push(() => this.#run(answer));
  }

  #run(answer: () => void): void {
    this.#running += 1;
    const [least, most] = this.#scene.serviceMs;
    // The same sequence in every run.
    this.#random = (this.#random * 48271) % 2147483647;
    this.#clock.at(this.#clock.now() + least + (most - least) * (this.#random / 2147483647), () => {
      this.#running -= 1;
      this.#count(-1);
      this.finished += 1;
      this.#queue.shift()?.();
      answer();
    });
  }

  #count(change: number): void {
    this.#area = this.area;
    this.#since = this.#clock.now();
    this.inFlight += change;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
  }
}

export async function simulate(scene: Scene, makeEntry: MakeEntry): Promise<Usage> {
  const clock = new FakeClock();
  const server = new Server(clock, scene);
  const send = (through: Entry): void =>
    through((leave) =>
      server.take(() => {
        leave();
        send(through);
      }),
    );
  for (let other = 0; other < scene.others; other += 1) send((go) => go(() => {}));
  server.scrape();
  const enter = makeEntry(server, clock, scene);
  for (let sender = 0; sender < scene.senders; sender += 1) send(enter);
  for (let passed = 0; passed < scene.forMs; passed += scene.pollMs / 10) {
    // Readings are promises.
    await setImmediate();
    clock.advance(scene.pollMs / 10);
  }
  const { mostInFlight, finished } = server;
  const average = server.area / scene.forMs / scene.maxSys;
  return { average, highest: mostInFlight / scene.maxSys, mostInFlight, finished };
}

/** Each sender looks at the last sample at every poll, and goes if it is below the threshold. */
export const openOrClosed: MakeEntry = (server, clock, { threshold, pollMs }) => {
  const enter: Entry = (go) => {
    if (server.scraped < threshold) go(() => {});
    else clock.at(clock.now() + pollMs, () => enter(go));
  };
  return enter;
};

/** N is computed from the last sample at every poll, and so many go, whatever went on the same sample before. */
export const quotaEachPoll: MakeEntry = (server, clock, { threshold, pollMs, maxSys }) => {
  const waiting: ((leave: () => void) => void)[] = [];
  const poll = (): void => {
    const quota = Math.floor(maxSys * (1 - server.scraped - (1 - threshold)) + 1e-9);
    for (const go of waiting.splice(0, Math.max(0, quota))) go(() => {});
    clock.at(clock.now() + pollMs, poll);
  };
  clock.at(clock.now() + pollMs, poll);
  return (go) => waiting.push(go);
};

/** The gate of this package, with the settings that belong to the scene. */
export const gated: MakeEntry = (server, clock, { threshold, pollMs, maxSys, scrapeMs }) => {
  const source: BudgetSource = {
    description: 'a metric',
    read: async () => ({ ok: true, sample: { budget: 1 - server.scraped, at: clock.now() } }),
    close: async () => {},
  };
  const config = compileGate({
    source: 'constant',
    baseline: String(Math.round((1 - threshold) * 1e6) / 1e6),
    maxSys: String(maxSys),
    intervalMs: String(pollMs),
    lagMs: String(scrapeMs),
    staleMs: '5000',
  });
  const gate = new Gate({ id: 'g', name: 'g', config, source, clock, ready: () => 0, onChange: () => {} });
  return (go) => {
    gate.ask({
      cost: 1,
      priority: 0,
      deadline: Number.POSITIVE_INFINITY,
      admitted: ({ id }) => go(() => gate.end(id, { kind: 'done' })),
      refused: (error) => {
        throw error;
      },
    });
  };
};
