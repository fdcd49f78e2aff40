/** Makes of the outputs of an ONNX model what its stage gives: the best classes, boxes, or an embedding. */
import type { Gives, OnnxPresets } from '../../../config/stage-source.ts';
import type { TaskValues } from '../../../config/tasks/task-options.ts';
import { ModeletError } from '../../../core/errors.ts';
import { counted } from '../../../core/figures.ts';
import type { SessionTensor } from '../onnx/elements.ts';
import type { Ports, SessionPort } from '../onnx/ports.ts';
import type { ItemParts } from '../onnx/read-item.ts';
import { scoresAt } from '../onnx/results.ts';
import type { ItemOutputs } from '../onnx/run-items.ts';
import { boxesOf, type Output } from './boxes.ts';
import type { ModelFile } from './model-file.ts';
import type { PlacedPicture } from './picture-reader.ts';
import { asItIs, type Placement } from './placement.ts';
import { scored, scoringOf } from './scores.ts';
import { normalized, pool } from './vectors.ts';

/** @param options those of the request */
export type MakeAnswer = (outputs: ItemOutputs, item: ItemParts, options: TaskValues) => unknown;

export interface AnswerSource {
  readonly presets: OnnxPresets;
  readonly ports: Ports;
  readonly labels: readonly string[] | null;
  readonly file: ModelFile;
}

/** Names of outputs that are an embedding, the best first. */
const EMBEDDINGS = [/^(sentence|image|text)_embed/i, /embed/i, /pool/i];
/** @throws Error for users if the model has no such output */
export function answerMaker(source: AnswerSource): MakeAnswer {
  return MAKERS[source.presets.gives as Exclude<Gives, 'tensors'>](source);
}

const MAKERS: Readonly<Record<Exclude<Gives, 'tensors'>, (source: AnswerSource) => MakeAnswer>> = {
  classes: ({ ports, labels, presets, file }) => {
    const at = namedOutput(ports, presets) ?? scoresAt(ports.outputs, { labels });
    const scoring = scoringOf(presets, ports.outputs[at]?.name ?? '', file);
    return (outputs, item, options) => {
      const { data } = withoutBatch(outputs[at], ports.outputs[at], item);
      const scores = scored(data, data.length, scoring === 'auto' ? 'softmax' : scoring);
      if (labels && labels.length !== scores.length)
        throw new Error(`the list has ${counted(labels.length, 'label')} for ${counted(scores.length, 'score')}`);
      return Array.from(scores, (score, index) => ({ label: labels?.[index] ?? String(index), score }))
        .filter(({ score }) => score >= Number(options['threshold']))
        .sort((one, other) => other.score - one.score)
        .slice(0, Number(options['topK']));
    };
  },
  boxes: ({ ports, labels, presets, file }) => {
    const classes = ports.outputs.find(({ name }) => !/box/i.test(name));
    const scoring = scoringOf(presets, classes?.name ?? '', file);
    return (outputs, item, options) => {
      const tensors = outputs.map((tensor, at) => withoutBatch(tensor, ports.outputs[at], item));
      const { placement } = item as Partial<PlacedPicture>;
      const wanted = { form: presets.values['boxes'], scoring, labels, options, size: inputSize(item) };
      return boxesOf(tensors, wanted, placement ?? asItIs(wanted.size));
    };
  },
  embedding: ({ ports, presets }) => {
    const { inputs, outputs: all } = ports;
    const byName = EMBEDDINGS.map((pattern) => all.findIndex(({ name }) => pattern.test(name)));
    const at = namedOutput(ports, presets) ?? byName.find((found) => found >= 0) ?? scoresAt(all, { labels: null });
    const maskAt = inputs.findIndex(({ name }) => name === 'attention_mask');
    return (outputs, item, { pooling, normalize }) => {
      const { dims, data } = withoutBatch(outputs[at], all[at], item);
      const mask = dims.length === 2 ? (item.parts[maskAt]?.data as ArrayLike<unknown> | undefined) : undefined;
      const vector = pool(Float32Array.from(data), dims, pooling, mask?.length === dims[0] ? mask : undefined);
      return normalize ? normalized(vector) : vector;
    };
  },
};

function namedOutput({ outputs }: Ports, { values }: OnnxPresets): number | null {
  const wanted = values['output'];
  if (!wanted) return null;
  const at = outputs.findIndex(({ name }) => name === wanted);
  const names = outputs.map(({ name }) => `"${name}"`).join(', ');
  if (at < 0) throw new Error(`"output": the model has no output "${String(wanted)}"; its outputs are ${names}`);
  return at;
}

/** Removes the first dimension of an output where it is still there, though the item is one row. */
function withoutBatch(tensor: SessionTensor | undefined, port: SessionPort | undefined, { parts }: ItemParts): Output {
  const { dims, data } = tensor as SessionTensor;
  if (parts.some((part) => part.dims[0] !== 1))
    throw new ModeletError('invalid_input', 'the input must be one row: this stage gives one result for an input');
  const rank = port?.shape.length ?? 0;
  const isWhole = dims[0] === 1 && (rank === 0 || dims.length === rank);
  return { name: port?.name ?? '', dims: isWhole ? dims.slice(1) : dims, data: data as ArrayLike<number> };
}

/** Returns the size of the input with four dimensions, which boxes refer to. */
function inputSize({ parts }: ItemParts): Placement['of'] {
  const [, second = 1, third = 1, fourth = 1] = parts.find(({ dims }) => dims.length === 4)?.dims ?? [];
  return second <= 4 ? { height: third, width: fourth } : { height: second, width: third };
}
