/** Tells which digit an image shows: a small neural network in plain JavaScript that takes a whole batch at once. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Activations of a single sum. Softmax needs all ten sums of an image, so it follows at the end. */
const ACTIVATIONS = { relu: (sum) => Math.max(sum, 0), softmax: (sum) => sum };

export default class Classify {
  static batch = true;
  static outputSchema = {
    type: 'object',
    required: ['digit', 'probabilities'],
    properties: {
      digit: { type: 'integer', minimum: 0, maximum: 9 },
      probabilities: {
        description: 'Of the digits from 0 to 9.',
        type: 'array',
        minItems: 10,
        maxItems: 10,
        items: { type: 'number', minimum: 0, maximum: 1 },
      },
    },
  };

  constructor(init, _ctx) {
    this.path = init?.weights
      ? resolve(dirname(fileURLToPath(import.meta.url)), init.weights)
      : fileURLToPath(new URL('../models/digits.json', import.meta.url));
  }

  /** Runs once for each worker, so that no request pays for reading the weights. */
  async setup() {
    const model = JSON.parse(await readFile(this.path, 'utf8'));
    this.layers = model.layers.map(({ weights, bias, activation }) => ({
      // One flat array of rows: neighbours in a row are neighbours in memory, and no number is boxed.
      weights: Float32Array.from(weights.flat()),
      bias: Float32Array.from(bias),
      activate: ACTIVATIONS[activation],
      inputs: weights[0].length,
      outputs: weights.length,
    }));
  }

  /**
   * @param {Float32Array[]} batch
   * @returns {{ digit: number, probabilities: number[] }[]} in the order of the batch
   */
  predict(batch) {
    const { inputs } = this.layers[0];
    let values = new Float32Array(batch.length * inputs);
    batch.forEach((row, at) => {
      if (row?.length !== inputs) throw new Error(`row ${at} must be ${inputs} numbers, got ${row?.length}`);
      values.set(row, at * inputs);
    });
    for (const layer of this.layers) values = forward(layer, values, batch.length);

    const { outputs } = this.layers[this.layers.length - 1];
    return batch.map((_, at) => {
      const probabilities = softmax(values.subarray(at * outputs, (at + 1) * outputs));
      return { digit: probabilities.indexOf(Math.max(...probabilities)), probabilities };
    });
  }
}

/**
 * One layer for the whole batch. Neurons are the outer loop, so each row of weights is fetched once and used for every
 * image. These weights fit into a processor's cache and gain little by it; with large ones it is what batching is for.
 */
function forward({ weights, bias, activate, inputs, outputs }, values, rows) {
  const result = new Float32Array(rows * outputs);
  for (let neuron = 0; neuron < outputs; neuron += 1) {
    const from = neuron * inputs;
    for (let row = 0; row < rows; row += 1) {
      const start = row * inputs;
      // Summed the same way whatever the batch, so an image gets the same answer alone and in company.
      let sum = bias[neuron];
      for (let at = 0; at < inputs; at += 1) sum += weights[from + at] * values[start + at];
      result[row * outputs + neuron] = activate(sum);
    }
  }
  return result;
}

/** Subtracting the largest value changes no quotient and keeps exp() from overflowing. */
function softmax(logits) {
  const largest = Math.max(...logits);
  const powers = Array.from(logits, (logit) => Math.exp(logit - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}
