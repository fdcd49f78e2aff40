/** Draws layers of convolutions in ONNX, with random weights. */
import type { Drawing } from '../fixtures/onnx.ts';

type Constant = NonNullable<Drawing['constants']>[number];

/** Returns weights that keep numbers about as large as they are. The first dimension is that of the results. */
export function weightsOf(next: () => number, name: string, ...dims: readonly number[]): Constant {
  const [results = 0, ...others] = dims;
  const inputs = others.reduce((all, dim) => all * dim, 1);
  return {
    name,
    dims,
    values: Array.from({ length: results * inputs }, () => (4 * next() - 2) / Math.sqrt(inputs)),
  };
}

/** Returns layers that each halve the sides, and the name of what the last one gives. @param channels of the input, then of each layer */
export function convolutions(
  input: string,
  channels: readonly number[],
  next: () => number,
): { readonly nodes: Drawing['nodes']; readonly constants: readonly Constant[]; readonly last: string } {
  const layers = channels.slice(1).map((to, at) => ({ at, from: channels[at] as number, to }));
  return {
    nodes: layers.flatMap(({ at }) => [
      {
        operator: 'Conv',
        inputs: [at === 0 ? input : `kept${at - 1}`, `weights${at}`],
        output: `wide${at}`,
        attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] },
      },
      { operator: 'Relu', inputs: [`wide${at}`], output: `kept${at}` },
    ]),
    constants: layers.map(({ at, from, to }) => weightsOf(next, `weights${at}`, to, from, 3, 3)),
    last: `kept${layers.length - 1}`,
  };
}
