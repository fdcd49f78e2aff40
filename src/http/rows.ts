/**
 * One request of a client as several requests to the runtime: each of its rows is an item, which runs beside those of
 * other clients. The runtime admits all rows or refuses all, and they end together.
 *
 *   open   rows are open                                                        -> ended
 *   ended  all results have come, or a row has failed, or the client has gone
 */
import { ModeletError, prefixed } from '../core/errors.ts';
import type { Outcome, Payload, RequestNumber } from '../core/model.ts';
import type { EndpointRequest, EndpointRuntime } from './served-endpoint.ts';

/** Requests that differ by their payload only. */
export interface RowsRequest extends Omit<EndpointRequest, 'payload' | 'places' | 'onPart' | 'onSettled'> {
  /** At least one. */
  readonly payloads: readonly Payload[];
  /** Called exactly once, never before the rows are submitted: with all results in order, or the first error. */
  onSettled(outcome: Outcome<readonly Payload[]>): void;
}

type RowsState =
  /** `open`: the open requests, by row. `results`: those that have come, in their places. */
  | { readonly tag: 'open'; readonly open: Map<number, RequestNumber>; readonly results: Payload[]; left: number }
  | { readonly tag: 'ended' };

const ENDED: RowsState = { tag: 'ended' };

export class Rows {
  readonly #runtime: Pick<EndpointRuntime, 'submit' | 'abandon'>;
  readonly #onSettled: RowsRequest['onSettled'];
  #state: RowsState;

  /** Submits the rows. @throws ModeletError if the runtime refuses one; all others are cancelled then */
  constructor(runtime: Pick<EndpointRuntime, 'submit' | 'abandon'>, { payloads, onSettled, ...shared }: RowsRequest) {
    this.#runtime = runtime;
    this.#onSettled = onSettled;
    const open = new Map<number, RequestNumber>();
    this.#state = { tag: 'open', open, results: [], left: payloads.length };
    try {
      for (const [row, payload] of payloads.entries()) {
        const places = payloads.length - row;
        open.set(
          row,
          runtime.submit({ ...shared, payload, places, onSettled: ({ outcome }) => this.#settled(row, outcome) }),
        );
      }
    } catch (thrown) {
      this.#end();
      throw thrown;
    }
  }

  /** Settles the rows early, with an error. No effect if they have settled. */
  abandon(error: ModeletError): void {
    if (this.#end()) this.#onSettled({ ok: false, error });
  }

  #settled(row: number, outcome: Outcome<Payload>): void {
    const state = this.#state;
    if (state.tag !== 'open') return;
    state.open.delete(row);
    if (!outcome.ok) {
      this.abandon(prefixed(`row ${row}`, outcome.error));
      return;
    }
    state.results[row] = outcome.value;
    state.left -= 1;
    if (state.left === 0 && this.#end()) this.#onSettled({ ok: true, value: state.results });
  }

  /** Cancels the open rows. Returns false if the rows had settled. */
  #end(): boolean {
    const state = this.#state;
    if (state.tag !== 'open') return false;
    this.#state = ENDED;
    for (const id of state.open.values())
      this.#runtime.abandon(id, new ModeletError('cancelled', 'its request has ended'));
    return true;
  }
}
