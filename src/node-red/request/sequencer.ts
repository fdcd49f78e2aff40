/**
 * Keeps orders: sends the results of one collector in the order in which their requests entered the pipeline, and lets the
 * requests of some stages in one after the other. A request that fails, is dropped or is lost in a deploy frees its place.
 */
import { Fifo, type FifoNode } from '../../core/queues/fifo.ts';
import { Table } from '../../core/queues/table.ts';

/**
 * The place of a result:
 *
 *   open     in the pipeline
 *   sent     on the wire to the collector
 *   arrived  at the collector, behind earlier results; `emit` sends it on
 */
type SequenceState =
  | { readonly tag: 'open' }
  | { readonly tag: 'sent' }
  | { readonly tag: 'arrived'; readonly emit: () => void };

/** One pass of a request through a pipeline. A request that is split makes several passes. */
interface Ticket {
  readonly pass: number;
  place: SequenceState;
}

export class Sequencer {
  readonly #tickets: Fifo<Ticket> = new Fifo();
  readonly #byPass: Table<FifoNode<Ticket>> = new Table();

  /** Reserves the last place for the result of a request that enters the pipeline. */
  enter(pass: number): void {
    this.free(pass);
    this.#byPass.set(pass, this.#tickets.push({ pass, place: { tag: 'open' } }));
  }

  /** Notes that the result is on the wire to the collector. */
  sent(pass: number): void {
    const ticket = this.#byPass.get(pass);
    if (ticket?.value.place.tag === 'open') ticket.value.place = { tag: 'sent' };
  }

  /** Calls `emit` when all earlier results have left the collector; at once if the result has no place. */
  arrived(pass: number | undefined, emit: () => void): void {
    const ticket = pass === undefined ? undefined : this.#byPass.get(pass);
    if (!ticket || ticket.value.place.tag === 'arrived') {
      emit();
      return;
    }
    ticket.value.place = { tag: 'arrived', emit };
    this.#release();
  }

  /** Frees the place of a request that ended without a result: later results need not wait for it. */
  freeUnsent(pass: number): void {
    if (this.#byPass.get(pass)?.value.place.tag === 'open') this.free(pass);
  }

  free(pass: number): void {
    const ticket = this.#byPass.get(pass);
    if (!ticket || ticket.value.place.tag === 'arrived') return;
    this.#forget(ticket);
    this.#release();
  }

  /** Frees all places, because the collector is gone or no longer keeps an order. */
  dissolve(): void {
    for (const { pass, place } of [...this.#tickets]) if (place.tag !== 'arrived') this.free(pass);
  }

  #release(): void {
    for (let first = this.#tickets.first; first?.value.place.tag === 'arrived'; first = this.#tickets.first) {
      const { emit } = first.value.place;
      this.#forget(first);
      emit();
    }
  }

  #forget(ticket: FifoNode<Ticket>): void {
    this.#tickets.remove(ticket);
    this.#byPass.delete(ticket.value.pass);
  }
}

/** The sequencers of all collectors that keep the order of arrival. */
export class Sequencers {
  readonly #byCollector: Map<string, Sequencer> = new Map();

  of(collector: string): Sequencer {
    const sequencer = this.#byCollector.get(collector) ?? new Sequencer();
    this.#byCollector.set(collector, sequencer);
    return sequencer;
  }

  /** Frees the place of a lost message: later results need not wait for it. */
  free(pass: number): void {
    for (const sequencer of this.#byCollector.values()) sequencer.free(pass);
  }

  /** Call after a deploy: removes the other sequencers. @param ordering collectors that keep an order now */
  tidy(ordering: ReadonlySet<string>): void {
    for (const [collector, sequencer] of this.#byCollector) {
      if (ordering.has(collector)) continue;
      sequencer.dissolve();
      this.#byCollector.delete(collector);
    }
  }
}

/** A stage whose runs read what earlier runs wrote gets one message at a time: each run sees the context that the last left. */
export class Turns {
  readonly #waiting: Map<string, (() => void)[]> = new Map();

  /**
   * Calls `begin` now, or when all before it have left.
   * @returns a function that gives up the place in the queue; null if `most` wait already
   */
  enter(stage: string, most: number, begin: () => void): (() => void) | null {
    const waiting = this.#waiting.get(stage);
    if (!waiting) {
      this.#waiting.set(stage, []);
      begin();
      return () => {};
    }
    if (waiting.length >= most) return null;
    waiting.push(begin);
    return () => {
      const place = waiting.indexOf(begin);
      if (place >= 0) waiting.splice(place, 1);
    };
  }

  leave(stage: string): void {
    const next = this.#waiting.get(stage)?.shift();
    // In a later turn of the event loop, because many in a row may fail at once.
    if (next) setImmediate(next);
    else this.#waiting.delete(stage);
  }

  /** Lets all in at once: their runtime has stopped and refuses them. */
  dissolve(): void {
    for (const waiting of this.#waiting.values()) for (const begin of waiting.splice(0)) begin();
  }
}
