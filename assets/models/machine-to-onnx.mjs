/**
 * Writes a model of readings that are usual: their means, and which numbers go together.
 *
 *     node machine-to-onnx.mjs readings.csv machine.onnx
 *
 * The first line of the CSV file names the columns; below are numbers alone, of a time when all was well. Without a file
 * it writes machine.onnx of the example "Anomaly of a machine", byte for byte the same each time.
 *
 * `distance` is that of Mahalanobis. `deviation` says of each number how far it is from what the others lead one to
 * expect, in standard deviations.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { onnxModel } from './onnx-writer.mjs';

/** Share of a column's variance that is added to it, so that columns which hang together exactly have a solution. */
const RIDGE = 1e-6;

/** Temperature in degrees, vibration in mm/s, current in A and speed in rpm of a machine whose load goes up and down. */
function madeReadings(count) {
  let seed = 1;
  const random = () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed / 2147483648 - 0.5;
  };
  return Array.from({ length: count }, () => {
    const load = 0.5 + 0.8 * random();
    const noise = [2, 0.3, 0.5, 4].map((range) => range * random());
    return [45 + 25 * load, 1.5 + 1.5 * load, 6 + 8 * load, 1500 - 40 * load].map((value, at) => value + noise[at]);
  });
}

function readTable(path) {
  const [, ...lines] = readFileSync(path, 'utf8').trim().split(/\r?\n/);
  const rows = lines.map((line) => line.split(/[,;\t]/).map(Number));
  const bad = rows.findIndex((row) => row.length !== rows[0].length || !row.every(Number.isFinite));
  if (bad >= 0) throw new Error(`line ${bad + 2} of ${path} has something other than ${rows[0].length} numbers`);
  if (rows.length <= rows[0].length) throw new Error(`${path} needs more rows than it has columns`);
  return rows;
}

function covarianceOf(rows, means) {
  return means.map((_, row) =>
    means.map((_of, column) => {
      const products = rows.map((one) => (one[row] - means[row]) * (one[column] - means[column]));
      const covariance = products.reduce((sum, value) => sum + value, 0) / (rows.length - 1);
      return row === column ? covariance * (1 + RIDGE) + Number.MIN_VALUE : covariance;
    }),
  );
}

/** Inverts a matrix by elimination, the largest pivot first. */
function inverse(matrix) {
  const size = matrix.length;
  const rows = matrix.map((row, at) => [...row, ...row.map((_, column) => Number(column === at))]);
  for (let at = 0; at < size; at += 1) {
    const rest = rows.slice(at).map((row) => Math.abs(row[at]));
    const best = at + rest.indexOf(Math.max(...rest));
    if (!(rest[best - at] > 0)) throw new Error(`column ${at + 1} never changes: leave it out`);
    [rows[at], rows[best]] = [rows[best], rows[at]];
    rows[at] = rows[at].map((value) => value / rows[at][at]);
    rows.forEach((row, other) => {
      if (other !== at) rows[other] = row.map((value, column) => value - row[at] * rows[at][column]);
    });
  }
  return rows.map((row) => row.slice(size));
}

const [table, target] = process.argv.slice(2);
const readings = table ? readTable(table) : madeReadings(2000);
const size = readings[0].length;
const means = readings[0].map((_, at) => readings.reduce((sum, row) => sum + row[at], 0) / readings.length);
const precision = inverse(covarianceOf(readings, means));

const file = onnxModel({
  name: 'machine',
  inputs: [{ name: 'reading', shape: ['batch', size] }],
  outputs: [
    { name: 'distance', shape: ['batch'] },
    { name: 'deviation', shape: ['batch', size] },
  ],
  nodes: [
    { operator: 'Sub', inputs: ['reading', 'means'], output: 'offsets' },
    { operator: 'MatMul', inputs: ['offsets', 'precision'], output: 'weighed' },
    { operator: 'Mul', inputs: ['weighed', 'spread'], output: 'deviation' },
    { operator: 'Mul', inputs: ['weighed', 'offsets'], output: 'squares' },
    { operator: 'ReduceSum', inputs: ['squares', 'axes'], output: 'square', attributes: { keepdims: 0 } },
    { operator: 'Relu', inputs: ['square'], output: 'positive' },
    { operator: 'Sqrt', inputs: ['positive'], output: 'distance' },
  ],
  constants: [
    { name: 'means', dims: [size], values: means },
    { name: 'precision', dims: [size, size], values: precision.flat() },
    { name: 'spread', dims: [size], values: precision.map((row, at) => 1 / Math.sqrt(row[at])) },
    { name: 'axes', type: 'int64', dims: [1], values: [1n] },
  ],
});
writeFileSync(target ?? new URL('./machine.onnx', import.meta.url), file);
