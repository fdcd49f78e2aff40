/**
 * The context of each call, with a signal that aborts when no request waits for the result any more: its requests were
 * cancelled or reached their time limit. Without it, a call that waits for another service would keep its place.
 */
import type { RequestNumber } from '../../core/model.ts';
import type { ModeletContext } from '../modelet/modelet.ts';

/** A worker's context, without what only a call has. */
export type WorkerContext = Omit<ModeletContext, 'signal'>;

/** Never aborts: for all that runs for no request, such as `setup` and examples. */
const NEVER: AbortSignal = new AbortController().signal;

export function contextOfNoCall(context: WorkerContext): ModeletContext {
  return { ...context, signal: NEVER };
}

type Open = (ids: readonly RequestNumber[]) => AbortController;

/** A class, because an object with its own getter costs a microsecond for each item. */
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
    { stage, worker, cpus, log, metrics, progress }: WorkerContext,
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

/** The calls for one batch. */
export class BatchCalls {
  readonly #all: CallSignals;
  /** The requests that still wait for a call, of the calls that asked for their signal. */
  readonly #waiting: Map<AbortController, Set<RequestNumber>> = new Map();

  constructor(all: CallSignals) {
    this.#all = all;
  }

  /** Returns the context of a call for these requests. Makes the signal when code of the modelet asks for it. */
  contextFor(ids: readonly RequestNumber[]): ModeletContext {
    return new CallContext(this.#all.context, ids, this.#open);
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const [controller, waiting] of this.#waiting) {
      for (const id of ids) waiting.delete(id);
      if (waiting.size === 0) controller.abort();
    }
  }

  readonly #open: Open = (ids) => {
    const controller = new AbortController();
    const waiting = ids.filter((id) => !this.#all.isCancelled(id));
    this.#waiting.set(controller, new Set(waiting));
    if (waiting.length === 0) controller.abort();
    return controller;
  };
}

export class CallSignals {
  readonly context: WorkerContext;
  readonly isCancelled: (id: RequestNumber) => boolean;
  readonly #running: Set<BatchCalls> = new Set();

  constructor(context: WorkerContext, isCancelled: (id: RequestNumber) => boolean) {
    this.context = context;
    this.isCancelled = isCancelled;
  }

  begin(): BatchCalls {
    const calls = new BatchCalls(this);
    this.#running.add(calls);
    return calls;
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const calls of this.#running) calls.cancel(ids);
  }

  /** Forgets the calls for a batch: it has been answered. */
  end(calls: BatchCalls): void {
    this.#running.delete(calls);
  }
}
