/**
 * The calls of a worker: starts them in the order in which they arrive, as soon as a place is free, and gives each its
 * context.
 *
 * With one place, the next call begins when the last has ended and its reply has left, so the engine knows what runs.
 * With several, the engine is told each beginning before any code of the modelet runs for it. If the worker dies, the
 * engine then knows which calls had begun. The next call begins in a later turn of the event loop: if `predict` is
 * synchronous, the calls run in turn, and the time limit of each begins when it does.
 */
import type { RequestNumber } from '../../core/model.ts';
import type { HeldKey } from './key-states.ts';
import type { KeyState, ModeletContext } from './modelet/modelet.ts';

export interface PlacesHost<Call> {
  /** Tells the engine that the call begins. Resolves when the news has left. Not called with one place. */
  announce(call: Call): Promise<void>;
  /** Runs the call and sends its reply. Resolves when the reply has left. */
  run(call: Call): Promise<void>;
}

interface Accepted<Call> {
  readonly call: Call;
  /** Settles the promise of `add` as the call does. */
  readonly settle: (run: Promise<void>) => void;
}

export class Places<Call> {
  readonly #count: number;
  readonly #host: PlacesHost<Call>;
  readonly #waiting: Accepted<Call>[] = [];
  readonly #running: Set<Accepted<Call>> = new Set();
  #isStarting = false;
  /** Settles the promises of `empty`. */
  readonly #whenEmpty: (() => void)[] = [];

  constructor(count: number, host: PlacesHost<Call>) {
    this.#count = count;
    this.#host = host;
  }

  get calls(): Call[] {
    return [...this.#running, ...this.#waiting].map(({ call }) => call);
  }

  /** Resolves when the call has run. */
  add(call: Call): Promise<void> {
    return new Promise((settle) => {
      this.#waiting.push({ call, settle });
      void this.#start();
    });
  }

  /** Resolves when nothing waits or runs. */
  empty(): Promise<void> {
    return new Promise((resolve) => {
      this.#whenEmpty.push(resolve);
      this.#tellIfEmpty();
    });
  }

  #tellIfEmpty(): void {
    if (this.#running.size === 0 && this.#waiting.length === 0) for (const tell of this.#whenEmpty.splice(0)) tell();
  }

  async #start(): Promise<void> {
    if (this.#isStarting) return;
    this.#isStarting = true;
    // Yield once: the frames that arrived with the call may cancel it.
    await null;
    while (this.#running.size < this.#count) {
      const next = this.#waiting.shift();
      if (!next) break;
      this.#running.add(next);
      if (this.#count > 1) await this.#host.announce(next.call);
      void this.#run(next);
      if (this.#count > 1) await new Promise((resolve) => setImmediate(resolve));
    }
    this.#isStarting = false;
  }

  async #run(accepted: Accepted<Call>): Promise<void> {
    const run = this.#host.run(accepted.call);
    accepted.settle(run);
    await run.catch(() => {});
    this.#running.delete(accepted);
    this.#tellIfEmpty();
    void this.#start();
  }
}

type Open = (ids: readonly RequestNumber[]) => AbortController;

/**
 * The context of a call, with a signal that aborts when no request waits for the result any more: its requests were
 * cancelled or reached their time limit. Without it, a call that waits for another service would keep its place.
 *
 * A class, because an object with its own getter costs a microsecond for each item.
 */
class CallContext implements ModeletContext {
  readonly stage: string;
  readonly worker: number;
  readonly cpus: readonly number[] | null;
  readonly log: ModeletContext['log'];
  readonly metrics: ModeletContext['metrics'];
  readonly progress: ModeletContext['progress'];
  readonly #ids: readonly RequestNumber[];
  readonly #open: Open;
  #controller: AbortController | null = null;

  constructor(
    { stage, worker, cpus, log, metrics, progress }: ModeletContext,
    ids: readonly RequestNumber[],
    open: Open,
  ) {
    this.stage = stage;
    this.worker = worker;
    this.cpus = cpus;
    this.log = log;
    this.metrics = metrics;
    this.progress = progress;
    this.#ids = ids;
    this.#open = open;
  }

  get signal(): AbortSignal {
    this.#controller ??= this.#open(this.#ids);
    return this.#controller.signal;
  }
}

/** The context of a call in a stage with keys. */
class KeyedContext extends CallContext {
  readonly #held: readonly HeldKey[];

  constructor(context: ModeletContext, ids: readonly RequestNumber[], open: Open, held: readonly HeldKey[]) {
    super(context, ids, open);
    this.#held = held;
  }

  get #only(): HeldKey | undefined {
    return this.#held.length === 1 ? this.#held[0] : undefined;
  }

  get key(): string | undefined {
    return this.#only?.key;
  }

  get state(): KeyState | undefined {
    return this.#only?.state;
  }

  set state(state: KeyState | undefined) {
    if (!this.#only) throw new TypeError('a call for several items has ctx.states');
    this.#only.state = state as KeyState;
  }

  get keys(): readonly string[] {
    return this.#held.map(({ key }) => key);
  }

  get states(): readonly KeyState[] {
    return this.#held.map(({ state }) => state);
  }
}

/** The calls for one batch. */
export class BatchCalls {
  readonly #context: ModeletContext;
  readonly #isCancelled: (id: RequestNumber) => boolean;
  /** The requests that still wait for a call, of the calls that asked for their signal. */
  readonly #waiting: Map<AbortController, Set<RequestNumber>> = new Map();

  constructor(context: ModeletContext, isCancelled: (id: RequestNumber) => boolean) {
    this.#context = context;
    this.#isCancelled = isCancelled;
  }

  /**
   * Returns the context of a call for these requests. Makes the signal when code of the modelet asks for it.
   * @param keys the keys of the batch, by request; absent or null: the stage has none
   */
  contextFor(ids: readonly RequestNumber[], keys: ReadonlyMap<RequestNumber, HeldKey> | null = null): ModeletContext {
    if (!keys) return new CallContext(this.#context, ids, this.#open);
    const held = ids.flatMap((id) => keys.get(id) ?? []);
    return new KeyedContext(this.#context, ids, this.#open, held);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const [controller, waiting] of this.#waiting) {
      for (const id of ids) waiting.delete(id);
      if (waiting.size === 0) controller.abort();
    }
  }

  readonly #open: Open = (ids) => {
    const controller = new AbortController();
    const waiting = ids.filter((id) => !this.#isCancelled(id));
    this.#waiting.set(controller, new Set(waiting));
    if (waiting.length === 0) controller.abort();
    return controller;
  };
}
