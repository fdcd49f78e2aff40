/** Kinds of ONNX models: those whose answers depend on the other rows of a batch, and those whose rows are independent. */
import { classifier, type Drawing, doubling, TABLE } from '../fixtures/onnx.ts';

type Shape = readonly (number | string)[];
type Nodes = Drawing['nodes'];
type Constants = NonNullable<Drawing['constants']>;

/** A model, and how to make its items from random numbers from -1 to 1. */
export interface Kind {
  readonly drawing: Drawing;
  item(random: () => number): unknown;
}

let seed = 7;
function weight(): number {
  seed = (seed * 48_271) % 2_147_483_647;
  return (2 * seed) / 2_147_483_647 - 1;
}

const weights = (name: string, ...dims: number[]): Constants[number] => ({
  name,
  dims,
  values: Array.from({ length: dims.reduce((size, dim) => size * dim, 1) }, weight),
});
const integers = (name: string, dims: readonly number[], ...values: number[]): Constants[number] => ({
  ...{ name, type: 'int64', dims },
  values: values.map(BigInt),
});

/** A graph from `x` to `y`. */
function graph(from: Shape, to: Shape, nodes: Nodes, constants: Constants = [], operators = 13): Drawing {
  return { inputs: [{ name: 'x', shape: from }], outputs: [{ name: 'y', shape: to }], nodes, constants, operators };
}

const list =
  (length: number) =>
  (random: () => number): number[] =>
    Array.from({ length }, () => random());
const rows =
  (count: number, length: number) =>
  (random: () => number): number[][] =>
    Array.from({ length: count }, () => list(length)(random));
const four = list(4);

function lstm(from: Shape, to: Shape): Drawing {
  return graph(
    from,
    to,
    [
      { operator: 'Unsqueeze', inputs: ['x', 'one'], output: 'x3' },
      { operator: 'LSTM', inputs: ['x3', 'W', 'R'], output: 'y4', attributes: { hidden_size: 4 } },
      { operator: 'Squeeze', inputs: ['y4', 'both'], output: 'y' },
    ],
    [weights('W', 1, 16, 8), weights('R', 1, 16, 4), integers('one', [1], 1), integers('both', [2], 1, 2)],
  );
}

const lstmOfBatch: Drawing = graph(
  ['batch', 5, 8],
  ['batch', 4],
  [
    { operator: 'Transpose', inputs: ['x'], output: 'xt', attributes: { perm: [1, 0, 2] } },
    { operator: 'LSTM', inputs: ['xt', 'W', 'R'], outputs: ['all', 'last'], attributes: { hidden_size: 4 } },
    { operator: 'Squeeze', inputs: ['last', 'zero'], output: 'y' },
  ],
  [weights('W', 1, 16, 8), weights('R', 1, 16, 4), integers('zero', [1], 0)],
);

/** x - mean(x) over the axes. */
const centred = (shape: Shape, ...axes: number[]): Drawing =>
  graph(shape, shape, [
    { operator: 'ReduceMean', inputs: ['x'], output: 'm', attributes: { axes, keepdims: 1 } },
    { operator: 'Sub', inputs: ['x', 'm'], output: 'y' },
  ]);

const softmax = (shape: Shape, axis: number): Drawing =>
  graph(shape, shape, [{ operator: 'Softmax', inputs: ['x'], output: 'y', attributes: { axis } }]);

const perceptron = (batch: string): Drawing =>
  graph(
    [batch, 16],
    [batch, 4],
    [
      { operator: 'MatMul', inputs: ['x', 'W1'], output: 'a' },
      { operator: 'Relu', inputs: ['a'], output: 'b' },
      { operator: 'MatMul', inputs: ['b', 'W2'], output: 'y' },
    ],
    [weights('W1', 16, 32), weights('W2', 32, 4)],
  );

/** As quantize_dynamic of onnxruntime makes it: the scale of the inputs is taken over the whole tensor. */
const quantised = (batch: string): Drawing =>
  graph(
    [batch, 16],
    [batch, 4],
    [
      { operator: 'DynamicQuantizeLinear', inputs: ['x'], outputs: ['xq', 'scale', 'zero'] },
      { operator: 'MatMulInteger', inputs: ['xq', 'W', 'zero', 'middle'], output: 'sums' },
      { operator: 'Cast', inputs: ['sums'], output: 'fractions', attributes: { to: 1 } },
      { operator: 'Mul', inputs: ['fractions', 'scale'], output: 'y' },
    ],
    [
      {
        ...weights('W', 16, 4),
        type: 'uint8',
        values: weights('W', 16, 4).values.map((value) => 128 + Number(value) * 99),
      },
      { name: 'middle', type: 'uint8', dims: [], values: [128] },
    ],
  );

const products = (from: Shape, to: Shape): Drawing =>
  graph(from, to, [
    { operator: 'Transpose', inputs: ['x'], output: 't', attributes: { perm: [1, 0] } },
    { operator: 'MatMul', inputs: ['x', 't'], output: 'y' },
  ]);

/** Batch normalisation in training mode: onnxruntime changes the mean that it adds up with each run. */
export const STATEFUL: Drawing = graph(
  ['batch', 4],
  ['batch', 4],
  [
    {
      operator: 'BatchNormalization',
      inputs: ['x', 's', 'b', 'm', 'v'],
      outputs: ['y', 'rm', 'rv'],
      attributes: { training_mode: 1 },
    },
  ],
  [
    { name: 's', dims: [4], values: [1, 1, 1, 1] },
    { name: 'b', dims: [4], values: [0, 0, 0, 0] },
    { name: 'm', dims: [4], values: [0, 0, 0, 0] },
    { name: 'v', dims: [4], values: [1, 1, 1, 1] },
  ],
  14,
);

const cumulative = (shape: Shape, type = 'float32'): Drawing => ({
  ...graph(shape, shape, [{ operator: 'CumSum', inputs: ['x', 'axis'], output: 'y' }], [integers('axis', [], 0)]),
  inputs: [{ name: 'x', type, shape }],
  outputs: [{ name: 'y', type, shape }],
});

/** Boxes with a score above 0.5. */
const detector: Drawing = {
  inputs: [
    { name: 'boxes', shape: ['n', 4] },
    { name: 'scores', shape: ['n'] },
  ],
  outputs: [{ name: 'found', shape: ['k', 4] }],
  nodes: [
    { operator: 'Greater', inputs: ['scores', 'least'], output: 'isFound' },
    { operator: 'Compress', inputs: ['boxes', 'isFound'], output: 'found', attributes: { axis: 0 } },
  ],
  constants: [{ name: 'least', dims: [], values: [0.5] }],
};

/** a + b, and a * b or a * mean(b) over the batch. */
const pair = (isPooled: boolean): Drawing => ({
  inputs: [
    { name: 'a', shape: ['batch', 4] },
    { name: 'b', shape: ['batch', 4] },
  ],
  outputs: [
    { name: 'sum', shape: ['batch', 4] },
    { name: 'product', shape: ['batch', 4] },
  ],
  nodes: [
    { operator: 'Add', inputs: ['a', 'b'], output: 'sum' },
    ...(isPooled
      ? [{ operator: 'ReduceMean', inputs: ['b'], output: 'm', attributes: { axes: [0], keepdims: 1 } }]
      : []),
    { operator: 'Mul', inputs: ['a', isPooled ? 'm' : 'b'], output: 'product' },
  ],
});
const pairItem = (random: () => number): unknown => ({ a: four(random), b: four(random) });

const rolled = graph(
  ['batch', 4],
  ['batch', 4],
  [
    { operator: 'Slice', inputs: ['x', 'one', 'end', 'zero'], output: 'rest' },
    { operator: 'Slice', inputs: ['x', 'zero', 'one', 'zero'], output: 'head' },
    { operator: 'Concat', inputs: ['rest', 'head'], output: 'y', attributes: { axis: 0 } },
  ],
  [integers('zero', [1], 0), integers('one', [1], 1), integers('end', [1], 2 ** 31)],
);

const byLargest = graph(
  ['batch', 4],
  ['batch', 4],
  [
    { operator: 'ReduceMax', inputs: ['x'], output: 'm', attributes: { keepdims: 0 } },
    { operator: 'Div', inputs: ['x', 'm'], output: 'y' },
  ],
);

const typed = (type: string, operator: string, shape: Shape = ['batch', 4]): Drawing => ({
  inputs: [{ name: 'x', type, shape }],
  outputs: [{ name: 'y', type, shape }],
  nodes: [{ operator, inputs: ['x'], output: 'y' }],
});

const convolution = graph(
  ['batch', 1, 5, 5],
  ['batch', 2, 3, 3],
  [{ operator: 'Conv', inputs: ['x', 'W'], output: 'y' }],
  [weights('W', 2, 1, 3, 3)],
);

const bytes: Drawing = {
  ...graph(
    ['batch', 4],
    ['batch', 4],
    [
      { operator: 'Cast', inputs: ['x'], output: 'f', attributes: { to: 1 } },
      { operator: 'Sqrt', inputs: ['f'], output: 'y' },
    ],
  ),
  inputs: [{ name: 'x', type: 'uint8', shape: ['batch', 4] }],
};

const word = (random: () => number): string => random().toString(36);
const whole = (most: number) => (random: () => number) => Math.floor(Math.abs(random()) * most);

/** Models whose first dimension looks like a batch, and whose rows are not independent. */
export const MIXED: Readonly<Record<string, Kind>> = {
  'an LSTM over a sequence': { drawing: lstm(['seq', 8], ['seq', 4]), item: rows(3, 8) },
  'an LSTM over windows of a fixed length': { drawing: lstm([20, 8], [20, 4]), item: rows(20, 8) },
  'an LSTM over a sequence without a name': { drawing: lstm(['', 8], ['', 4]), item: rows(3, 8) },
  'softmax over the first axis': { drawing: softmax(['batch', 4], 0), item: four },
  'softmax over the first axis of a fixed matrix': { drawing: softmax([2, 2], 0), item: rows(2, 2) },
  'the distance to the mean of the first axis': { drawing: centred(['batch', 4], 0), item: four },
  'inner products with all rows': { drawing: products(['n', 4], ['n', 'n']), item: four },
  'a picture with its channels first': {
    drawing: centred([3, 4, 4], 0),
    item: (random) => [rows(4, 4)(random), rows(4, 4)(random), rows(4, 4)(random)],
  },
  'a square matrix': {
    drawing: graph(['n', 'n'], ['n', 'n'], [{ operator: 'Transpose', inputs: ['x'], output: 'y' }]),
    item: rows(3, 3),
  },
  'running sums': { drawing: cumulative(['time', 2]), item: rows(3, 2) },
  'running sums of integers': {
    drawing: cumulative(['time', 2], 'int64'),
    item: (random) => [[whole(9)(random), whole(9)(random)]],
  },
  'rows that change places': { drawing: rolled, item: four },
  'parts of the largest value': { drawing: byLargest, item: four },
  'dynamic quantisation': { drawing: quantised('batch'), item: list(16) },
  'dynamic quantisation without a name': { drawing: quantised(''), item: list(16) },
  'two inputs, of which one is pooled': { drawing: pair(true), item: pairItem },
  'a detector': { drawing: detector, item: (random) => ({ boxes: rows(3, 4)(random), scores: list(3)(random) }) },
};

/** Models whose rows are independent: they batch. */
export const INDEPENDENT: Readonly<Record<string, Kind>> = {
  doubling: { drawing: doubling(['batch', 4]), item: four },
  'a perceptron': { drawing: perceptron('batch'), item: list(16) },
  'a perceptron without a name': { drawing: perceptron(''), item: list(16) },
  'softmax over the last axis': { drawing: softmax(['batch', 4], 1), item: four },
  'the distance to the mean of a row': { drawing: centred(['n', 4], 1), item: four },
  'an LSTM over the second axis': { drawing: lstmOfBatch, item: rows(5, 8) },
  'a convolution': { drawing: convolution, item: rows(5, 5) },
  'two inputs and outputs': { drawing: pair(false), item: pairItem },
  'a classifier with labels': { drawing: classifier({ zipmap: false }), item: list(2) },
  'a batch of a fixed size': { drawing: doubling([4, 4]), item: four },
  'open dimensions': {
    drawing: typed('float32', 'Relu', ['batch', 'height', 'width']),
    item: (random) => rows(1 + whole(3)(random), 2)(random),
  },
  'indexes of a table': { drawing: TABLE, item: (random) => whole(1e6)(random) % 3 },
  texts: { drawing: typed('string', 'Identity', ['batch', 2]), item: (random) => [word(random), word(random)] },
  booleans: { drawing: typed('bool', 'Not'), item: (random) => four(random).map((value) => value > 0) },
  bytes: { drawing: bytes, item: (random) => four(random).map((value) => whole(255)(() => value)) },
  'half floats': { drawing: typed('float16', 'Tanh'), item: four },
  'double floats': { drawing: typed('float64', 'Tanh'), item: four },
  'long integers': {
    drawing: typed('int64', 'Neg'),
    item: (random) => four(random).map((value) => Math.round(1e9 * value)),
  },
};
