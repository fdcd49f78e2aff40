/**
 * One request of a client as several requests to the runtime: each of its rows is an item, which runs beside those of
 * other clients. The runtime admits all rows or refuses all. Rows go in while the window has room, so that the requests of
 * other clients do not wait behind all of them.
 *
 *   open   rows are open                                                        -> ended
 *   ended  all rows have settled, or the request as a whole has, or the client has gone
 */
import { ModeletError, prefixed } from '../../core/errors.ts';
import type { Outcome, Payload, RequestNumber } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import type { DeskEndpoint, EndpointRequest } from '../served-endpoint.ts';

/** A row, or the error of a row that cannot be read. */
export type RowInput = Payload | ModeletError;

/** Outcomes of all rows, in order; or the error of their request as a whole. */
export type RowsOutcome = Outcome<readonly Outcome<Payload>[]>;

/** Rows of a client's request, and its answer. */
export interface RowItems {
  readonly rows: readonly RowInput[];
  /** Whether the first row that fails ends the others. */
  readonly allOrNone: boolean;
  /** Most rows that are in the engine at a time. */
  readonly window: number;
  /** Called for each row that settles, before `onSettled`. */
  onRow?(row: number, settlement: Settlement): void;
  /** Calls `next` when the client takes another row. Absent: at any time. */
  readonly pace?: ((next: () => void) => void) | undefined;
  /** Called exactly once, never before `begin`. */
  onSettled(outcome: RowsOutcome): void;
}

export type RowsRuntime = Pick<DeskEndpoint, 'submit' | 'enter' | 'abandon' | 'refused'>;

type SharedTerms = Pick<EndpointRequest, 'requestId' | 'deadline' | 'http'>;

interface OpenRows {
  readonly tag: 'open';
  /** Rows that the runtime has and that have not settled. */
  readonly ids: Map<number, RequestNumber>;
  readonly outcomes: Outcome<Payload>[];
  left: number;
  /** The next row that goes in, or that is found unreadable. */
  next: number;
  /** How many are in the engine. */
  inside: number;
  hasResult: boolean;
  isFilling: boolean;
}

type RowsState = OpenRows | { readonly tag: 'ended' };

const ENDED: RowsState = { tag: 'ended' };

export class Rows {
  readonly #runtime: RowsRuntime;
  readonly #items: RowItems;
  readonly #requestId: string;
  #state: RowsState;

  /** Opens the rows. @throws ModeletError if the runtime refuses one; none has gone in then */
  constructor(runtime: RowsRuntime, items: RowItems, shared: SharedTerms) {
    this.#runtime = runtime;
    this.#items = items;
    this.#requestId = shared.requestId;
    const { rows, window } = items;
    const ids = new Map<number, RequestNumber>();
    const counts = { left: rows.length, next: 0, inside: 0 };
    this.#state = { tag: 'open', ids, outcomes: [], ...counts, hasResult: false, isFilling: false };
    const readable = [...rows.entries()].flatMap(([row, payload]) =>
      payload instanceof ModeletError ? [] : [[row, payload] as const],
    );
    const bytes = readable.reduce((sum, [, payload]) => sum + payload.bytes.byteLength, 0);
    try {
      for (const [index, [row, payload]] of readable.entries()) {
        const id = runtime.submit({
          ...{ ...shared, payload, isHeld: true },
          ...(index === 0 ? { together: { count: readable.length, bytes } } : {}),
          // The request has been admitted by the time that these go in.
          ...(index < window ? {} : { patient: true }),
          onSettled: (settlement) => this.#settled(row, settlement),
        });
        ids.set(row, id);
      }
    } catch (thrown) {
      this.#end();
      throw thrown;
    }
  }

  /** Lets the first rows in. Call once. */
  begin(): void {
    if (this.#items.rows.length === 0 && this.#end()) this.#items.onSettled({ ok: true, value: [] });
    else this.#fill();
  }

  /** Settles the request early, with an error. No effect if it has settled. */
  abandon(error: ModeletError): void {
    if (this.#end()) this.#items.onSettled({ ok: false, error });
  }

  #fill(): void {
    const state = this.#state;
    if (state.tag !== 'open' || state.isFilling) return;
    state.isFilling = true;
    while (this.#state === state && state.next < this.#items.rows.length && state.inside < this.#items.window) {
      const row = state.next;
      state.next += 1;
      const id = state.ids.get(row);
      const input = this.#items.rows[row];
      if (input instanceof ModeletError) {
        this.#runtime.refused(input, this.#requestId);
        this.#note(state, row, { outcome: { ok: false, error: input }, timings: [], gathered: null });
      } else if (id !== undefined) {
        state.inside += 1;
        this.#runtime.enter(id);
      }
    }
    state.isFilling = false;
  }

  #settled(row: number, settlement: Settlement): void {
    const { outcome } = settlement;
    const state = this.#state;
    if (state.tag !== 'open') return;
    state.ids.delete(row);
    if (row < state.next) state.inside -= 1;
    if (!outcome.ok && this.#refuses(state, row, outcome.error)) {
      this.abandon(this.#items.allOrNone ? prefixed(`row ${row}`, outcome.error) : outcome.error);
      return;
    }
    this.#note(state, row, settlement);
    if (this.#state !== state) return;
    if (this.#items.pace) this.#items.pace(() => this.#fill());
    else this.#fill();
  }

  /** Whether the error of a row is that of the request: nothing of it has a result yet, and there is no room for it. */
  #refuses({ hasResult }: OpenRows, row: number, { code }: ModeletError): boolean {
    return this.#items.allOrNone || (code === 'capacity_exceeded' && !hasResult && row < this.#items.window);
  }

  #note(state: OpenRows, row: number, settlement: Settlement): void {
    const { outcome } = settlement;
    state.outcomes[row] = outcome;
    state.left -= 1;
    state.hasResult ||= outcome.ok;
    this.#items.onRow?.(row, settlement);
    if (state.left === 0 && this.#end()) this.#items.onSettled({ ok: true, value: state.outcomes });
  }

  /** Cancels the open rows. Returns false if the request had settled. */
  #end(): boolean {
    const state = this.#state;
    if (state.tag !== 'open') return false;
    this.#state = ENDED;
    for (const id of state.ids.values())
      this.#runtime.abandon(id, new ModeletError('cancelled', 'its request has ended'));
    return true;
  }
}
