/** Seed 004's model: a batch of n takes 0.001 ln(n + 1) seconds, and each number comes back squared. */
const cell = new Int32Array(new SharedArrayBuffer(4));

export function sleepFor(batchSize: number): void {
  Atomics.wait(cell, 0, 0, Math.log(batchSize + 1));
}

export default class SleepSquare {
  static batch = true;

  predict(inputs: number[]): number[] {
    sleepFor(inputs.length);
    return inputs.map((input) => input * input);
  }
}
