/**
 * The context of each call, with a signal that aborts when nobody waits for the result any more: its requests were
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

export class CallSignals {
  readonly #context: WorkerContext;
  readonly #isCancelled: (id: RequestNumber) => boolean;
  /** The requests that still wait for a call, of the calls that asked for their signal. */
  readonly #open: Map<AbortController, Set<RequestNumber>> = new Map();

  constructor(context: WorkerContext, isCancelled: (id: RequestNumber) => boolean) {
    this.#context = context;
    this.#isCancelled = isCancelled;
  }

  /** Returns the context of a call for these requests. Makes the signal when code of the modelet asks for it. */
  contextFor(ids: readonly RequestNumber[]): ModeletContext {
    let controller: AbortController | null = null;
    const open = (): AbortController => this.#begin(ids);
    return {
      ...this.#context,
      get signal(): AbortSignal {
        controller ??= open();
        return controller.signal;
      },
    };
  }

  cancel(ids: readonly RequestNumber[]): void {
    for (const [controller, waiting] of this.#open) {
      for (const id of ids) waiting.delete(id);
      if (waiting.size === 0) this.#abort(controller);
    }
  }

  /** Forgets the calls for these requests: they have been answered. */
  end(ids: readonly RequestNumber[]): void {
    for (const [controller, waiting] of this.#open)
      if (ids.some((id) => waiting.has(id))) this.#open.delete(controller);
  }

  #begin(ids: readonly RequestNumber[]): AbortController {
    const controller = new AbortController();
    const waiting = ids.filter((id) => !this.#isCancelled(id));
    this.#open.set(controller, new Set(waiting));
    if (waiting.length === 0) this.#abort(controller);
    return controller;
  }

  #abort(controller: AbortController): void {
    this.#open.delete(controller);
    controller.abort();
  }
}
