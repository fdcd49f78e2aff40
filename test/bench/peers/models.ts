/** The models of the workloads with real ones, of random weights: folders of known models, whose ONNX files the peers load, too. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodePng } from '../../../src/core/pictures/png.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { WORDS } from '../../fixtures/known-tokenizers.ts';
import type { Drawing } from '../../fixtures/onnx.ts';
import { convolutions, weightsOf } from '../convolutions.ts';
import { numbersFrom, transformer } from '../transformer.ts';

/** As all-MiniLM-L6-v2 has them. */
const SIZE = { width: 384, layers: 6 } as const;
const MEAN = new Set(['present', 'counted', 'sum', 'length', 'vector']);
/** Width and height that the detector takes. */
const SIDE = 256;
const CHANNELS = [3, 32, 64, 128, 128] as const;
const CLASSES = 5;
const BACKGROUND = 5;

/** A small model of texts, for `feature-extraction`: its outputs are the vectors of the tokens. */
function texts(): KnownModel {
  const drawing = transformer({ ...SIZE, words: WORDS.length, weights: 'float32' });
  const tokens = ['batch', 'length'];
  const model: Drawing = {
    ...drawing,
    inputs: ['input_ids', 'attention_mask'].map((name) => ({ name, type: 'int64', shape: tokens })),
    outputs: [{ name: 'last_hidden_state', shape: [...tokens, SIZE.width] }],
    nodes: [
      { operator: 'Identity', inputs: ['input_ids'], output: 'ids' },
      { operator: 'Cast', inputs: ['attention_mask'], output: 'mask', attributes: { to: 1 } },
      ...drawing.nodes.filter(({ output }) => !MEAN.has(output as string)),
      { operator: 'Identity', inputs: [`out${SIZE.layers - 1}`], output: 'last_hidden_state' },
    ],
  };
  return { ...(KNOWN['feature-extraction'] as KnownModel), graphs: { model } };
}

/** A small detector: four convolutions, and a box for each place that is left. */
function detector(): KnownModel {
  const next = numbersFrom(2);
  const layers = convolutions('pixel_values', CHANNELS, next);
  const width = CHANNELS.at(-1) as number;
  const model: Drawing = {
    inputs: [{ name: 'pixel_values', shape: ['batch', 3, SIDE, SIDE] }],
    outputs: [
      { name: 'logits', shape: ['batch', 'boxes', CLASSES] },
      { name: 'pred_boxes', shape: ['batch', 'boxes', 4] },
    ],
    nodes: [
      ...layers.nodes,
      { operator: 'Reshape', inputs: [layers.last, 'shape'], output: 'flat' },
      { operator: 'Transpose', inputs: ['flat'], output: 'places', attributes: { perm: [0, 2, 1] } },
      { operator: 'MatMul', inputs: ['places', 'classes'], output: 'scores' },
      { operator: 'Add', inputs: ['scores', 'background'], output: 'logits' },
      { operator: 'MatMul', inputs: ['places', 'sides'], output: 'edges' },
      { operator: 'Sigmoid', inputs: ['edges'], output: 'pred_boxes' },
    ],
    constants: [
      { name: 'shape', type: 'int64', dims: [3], values: [0n, BigInt(width), -1n] },
      ...layers.constants,
      weightsOf(next, 'classes', width, CLASSES),
      // Few places have an object.
      { name: 'background', dims: [CLASSES], values: [0, 0, 0, 0, BACKGROUND] },
      weightsOf(next, 'sides', width, 4),
    ],
  };
  const colours = ['red', 'green', 'blue', 'grey'];
  const { config, processor } = KNOWN['object-detection'] as KnownModel;
  return {
    config: { ...config, id2label: Object.fromEntries(colours.map((name, id) => [id, name])) },
    processor: { ...processor, size: { height: SIDE, width: SIDE } },
    graphs: { model },
  };
}

export const TASKS_OF_MODELS = { vectors: 'feature-extraction', detector: 'object-detection' } as const;
export type ModelName = keyof typeof TASKS_OF_MODELS;

export class ModelFolders {
  readonly #folder = mkdtempSync(join(tmpdir(), 'modelet-peers-'));

  constructor() {
    for (const [name, model] of [['vectors', texts()] as const, ['detector', detector()] as const])
      writeKnownModel(this.of(name), model);
  }

  of(name: ModelName): string {
    return join(this.#folder, name);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** A picture of 320x240 with soft colours and a grain, about 200 KB. */
export function picture(): Promise<Buffer> {
  const [width, height] = [320, 240];
  const next = numbersFrom(3);
  const data = Buffer.from(
    Array.from({ length: width * height * 3 }, (_, at) => {
      const [x, y] = [Math.floor(at / 3) % width, Math.floor(at / 3 / width)];
      return Math.round(110 + 60 * Math.sin(x / 30 + (at % 3)) + 50 * Math.cos(y / 20) + 20 * next());
    }),
  );
  return encodePng({ data, width, height, channels: 3 });
}
