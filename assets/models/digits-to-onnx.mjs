/**
 * Writes the network of digits.json as digits.onnx: `node assets/models/digits-to-onnx.mjs`. The same weights give
 * the same file, byte for byte. Its pixels are 0..16: their scale is in the first layer.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { onnxModel } from './onnx-writer.mjs';

const PIXEL_MAX = 16;

const { layers } = JSON.parse(readFileSync(new URL('./digits.json', import.meta.url), 'utf8'));
const [first, second] = layers;
const [hidden, digits] = [first.bias.length, second.bias.length];
const scaled = first.weights.flat().map((weight) => weight / PIXEL_MAX);
const transposed = { transB: 1 };

const file = onnxModel({
  name: 'digits',
  inputs: [{ name: 'image', shape: ['batch', 8, 8] }],
  outputs: [{ name: 'scores', shape: ['batch', digits] }],
  nodes: [
    { operator: 'Flatten', inputs: ['image'], output: 'pixels' },
    { operator: 'Gemm', inputs: ['pixels', 'weights1', 'bias1'], output: 'sums', attributes: transposed },
    { operator: 'Relu', inputs: ['sums'], output: 'hidden' },
    { operator: 'Gemm', inputs: ['hidden', 'weights2', 'bias2'], output: 'scores', attributes: transposed },
  ],
  constants: [
    { name: 'weights1', dims: [hidden, 64], values: scaled },
    { name: 'bias1', dims: [hidden], values: first.bias },
    { name: 'weights2', dims: [digits, hidden], values: second.weights.flat() },
    { name: 'bias2', dims: [digits], values: second.bias },
  ],
});
writeFileSync(new URL('./digits.onnx', import.meta.url), file);
