/** Draws models in ONNX of the form of a transformer for texts, with weights as floats or as bytes, and makes texts for them. */
import type { Drawing } from '../fixtures/onnx.ts';

export interface Text {
  readonly ids: readonly number[];
  readonly mask: readonly number[];
}

export interface TransformerSize {
  readonly words: number;
  readonly width: number;
  readonly layers: number;
  /** Of the weights by which vectors are multiplied. `uint8`: the vectors become bytes, too, as in models of the precision q8. */
  readonly weights: 'float32' | 'uint8';
}

/** Special tokens of most models; no text has them. */
const SPECIAL = 100;

/** Numbers from 0 to 1, the same in each run. */
export function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** @param words of the model */
export function textOf(length: number, words: number, next: () => number): Text {
  const ids = Array.from({ length }, () => Math.floor(SPECIAL + next() * (words - SPECIAL)));
  return { ids, mask: ids.map(() => 1) };
}

type Node = Drawing['nodes'][number];
type Constant = NonNullable<Drawing['constants']>[number];
/** Multiplies vectors by weights. */
type Dense = (output: string, input: string, ...dims: readonly [number, number]) => readonly Node[];

/** Attention among the tokens of a text, then two dense layers. */
function layer(at: number, width: number, dense: Dense): Node[] {
  const named = (name: string): string => `${name}${at}`;
  const from = at === 0 ? 'embedded' : `out${at - 1}`;
  return [
    ...dense(named('q'), from, width, width),
    ...dense(named('k'), from, width, width),
    ...dense(named('v'), from, width, width),
    { operator: 'Transpose', inputs: [named('k')], output: named('kt'), attributes: { perm: [0, 2, 1] } },
    { operator: 'MatMul', inputs: [named('q'), named('kt')], output: named('near') },
    { operator: 'Add', inputs: [named('near'), 'hidden'], output: named('seen') },
    { operator: 'Softmax', inputs: [named('seen')], output: named('share'), attributes: { axis: 2 } },
    { operator: 'MatMul', inputs: [named('share'), named('v')], output: named('mixed') },
    ...dense(named('wide'), named('mixed'), width, 4 * width),
    { operator: 'Relu', inputs: [named('wide')], output: named('kept') },
    ...dense(named('out'), named('kept'), 4 * width, width),
  ];
}

/** Gives each text the mean of what its tokens have become. */
export function transformer({ words, width, layers, weights }: TransformerSize): Drawing {
  const next = numbersFrom(1);
  const constants: Constant[] = [
    { name: 'one', dims: [1], values: [1] },
    { name: 'far', dims: [1], values: [1e9] },
    { name: 'first', type: 'int64', dims: [1], values: [1n] },
    { name: 'second', type: 'int64', dims: [1], values: [2n] },
    ...(weights === 'uint8'
      ? [
          { name: 'middle', type: 'uint8', dims: [], values: [128] },
          { name: 'step', dims: [], values: [1 / 256 / Math.sqrt(width)] },
        ]
      : []),
  ];
  const floats = (name: string, ...dims: readonly [number, number]): string => {
    const values = Array.from({ length: dims[0] * dims[1] }, () => (next() - 0.5) / Math.sqrt(width));
    constants.push({ name, dims, values });
    return name;
  };
  const byFloats: Dense = (output, input, ...dims) => [
    { operator: 'MatMul', inputs: [input, floats(`w_${output}`, ...dims)], output },
  ];
  const byBytes: Dense = (output, input, ...dims) => {
    const part = (name: string): string => `${output}_${name}`;
    const values = Array.from({ length: dims[0] * dims[1] }, () => Math.floor(next() * 256));
    constants.push({ name: part('w'), type: 'uint8', dims, values });
    const [bytes, step, zero] = [part('bytes'), part('step'), part('zero')];
    return [
      { operator: 'DynamicQuantizeLinear', inputs: [input], outputs: [bytes, step, zero] },
      { operator: 'MatMulInteger', inputs: [bytes, part('w'), zero, 'middle'], output: part('whole') },
      { operator: 'Cast', inputs: [part('whole')], output: part('floats'), attributes: { to: 1 } },
      { operator: 'Mul', inputs: [step, 'step'], output: part('steps') },
      { operator: 'Mul', inputs: [part('floats'), part('steps')], output },
    ];
  };
  const dense = weights === 'uint8' ? byBytes : byFloats;
  const nodes: Node[] = [
    { operator: 'Gather', inputs: [floats('words', words, width), 'ids'], output: 'embedded' },
    { operator: 'Sub', inputs: ['mask', 'one'], output: 'absent' },
    { operator: 'Mul', inputs: ['absent', 'far'], output: 'below' },
    { operator: 'Unsqueeze', inputs: ['below', 'first'], output: 'hidden' },
    ...Array.from({ length: layers }, (_, at) => layer(at, width, dense)).flat(),
    { operator: 'Unsqueeze', inputs: ['mask', 'second'], output: 'present' },
    { operator: 'Mul', inputs: [`out${layers - 1}`, 'present'], output: 'counted' },
    { operator: 'ReduceSum', inputs: ['counted', 'first'], output: 'sum', attributes: { keepdims: 0 } },
    { operator: 'ReduceSum', inputs: ['mask', 'first'], output: 'length', attributes: { keepdims: 1 } },
    { operator: 'Div', inputs: ['sum', 'length'], output: 'vector' },
  ];
  return {
    inputs: [
      { name: 'ids', type: 'int64', shape: ['batch', 'sequence'] },
      { name: 'mask', shape: ['batch', 'sequence'] },
    ],
    outputs: [{ name: 'vector', shape: ['batch', width] }],
    nodes,
    constants,
    operators: 13,
  };
}
