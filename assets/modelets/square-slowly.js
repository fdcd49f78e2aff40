/** Squares numbers, and sleeps like a model whose batches cost little more than one item: ln(n + 1) ms for n of them. */
const nobodyWakes = new Int32Array(new SharedArrayBuffer(4));

export default class SquareSlowly {
  static batch = true;

  /**
   * @param {number[]} batch
   * @returns {number[]}
   */
  predict(batch) {
    // A timer may be a millisecond off, which here is as long as the work. Waiting this way is precise and costs no core.
    Atomics.wait(nobodyWakes, 0, 0, Math.log(batch.length + 1));
    return batch.map((number) => number * number);
  }
}
