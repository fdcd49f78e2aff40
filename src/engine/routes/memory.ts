/**
 * Bounds the bytes of payloads in the engine. Half of the budget is for requests that have passed no stage, whose
 * further ones are refused; half is for the results of stages, and a stage runs an item only if its expected result fits.
 * So neither half can starve the other, and what is far on its way has more room than what is behind.
 */
import type { Item } from '../stage/item.ts';

/** Bytes of a result for each byte of an input while a stage has given none: a JPEG may unpack a few hundred times. */
const UNKNOWN_GROWTH = 512;
/** Share that earlier results keep in the mean at each new one. */
const KEPT = 0.9;

/** Measures how much larger results are than their inputs, mostly by the latest. */
export class Growth {
  #inputs = 0;
  #results = 0;

  note(input: number, result: number): void {
    this.#inputs = this.#inputs * KEPT + input;
    this.#results = this.#results * KEPT + result;
  }

  /** Returns the expected bytes of a result. @param most the largest allowed */
  of(input: number, most: number): number {
    const factor = this.#inputs === 0 ? UNKNOWN_GROWTH : this.#results / this.#inputs;
    return Math.min(most, input * factor);
  }
}

export class Memory {
  readonly #half: number;
  #entered = 0;
  #made = 0;
  #expected = 0;
  #isWanted = false;
  readonly #onRoom: () => void;

  /** @param onRoom called when there may be room again after something was held back */
  constructor(maxBytes: number, onRoom: () => void) {
    this.#half = maxBytes / 2;
    this.#onRoom = onRoom;
  }

  /** Bytes of all payloads, results that are expected included. */
  get bytes(): number {
    return Math.round(this.#entered + this.#made + this.#expected);
  }

  /** Whether a request that has just come may stay. One alone always may. */
  takes(item: Item): boolean {
    let request = item;
    while (request.parent) request = request.parent;
    return this.#entered <= this.#half || this.#entered === request.held;
  }

  /** Counts the payload of an item. A branch shares that of its parent until a stage has made one of its own. */
  hold(item: Item): void {
    if (item.parent && !item.passed) return;
    item.held = item.payload.bytes.byteLength;
    if (item.passed) this.#made += item.held;
    else this.#entered += item.held;
  }

  /** Forgets the payload of an item and its expected result. */
  release(item: Item): void {
    if (item.passed) this.#made -= item.held;
    else this.#entered -= item.held;
    this.#expected -= item.expected;
    item.held = 0;
    item.expected = 0;
    if (!this.#isWanted) return;
    this.#isWanted = false;
    this.#onRoom();
  }

  /**
   * Whether the result of an item has room.
   * @param way part of the item's way behind it then, from 0 to 1
   */
  fits(item: Item, result: number, way: number): boolean {
    const made = this.#made - (item.passed ? item.held : 0) + this.#expected - item.expected;
    const fits = made + result <= (this.#half * (1 + Math.min(1, way))) / 2;
    if (!fits) this.#isWanted = true;
    return fits;
  }

  /** Whether no result is on its way: then one more may come, or nothing would move. */
  get expectsNothing(): boolean {
    return this.#expected <= 0;
  }

  /** Keeps room for the result of an item that runs. */
  expect(item: Item, result: number): void {
    this.#expected += result - item.expected;
    item.expected = result;
  }
}
