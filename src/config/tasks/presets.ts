/**
 * The presets of ONNX stages: what an item may be besides tensors, and what becomes of the outputs. As in the table of tasks,
 * one entry says all that is known of a preset: the dialog, the check at a deploy, the worker and the documents read it.
 */
import type { PayloadSchema } from '../../core/model.ts';
import { ownCheck } from '../payload-schema.ts';
import { GIVES_NAMES, type Gives, type OnnxPresets, TAKES_NAMES, type Takes } from '../stage-source.ts';
import { invalid } from '../validate.ts';
import { defaultsOf, MAX_MEGAPIXELS, shownOptions } from './task-options.ts';
import { share, TASKS, type TaskOption } from './tasks.ts';

type PresetOptions = Readonly<Record<string, TaskOption>>;

interface GivesPreset {
  /** PresetOptions that a request may set, too. */
  readonly ofRequest: PresetOptions;
  readonly ofStage: PresetOptions;
  readonly result: PayloadSchema;
}

const choice = (description: string, ...of: readonly [string, ...string[]]): TaskOption => ({
  ...{ type: 'string', enum: of, default: of[0] },
  description,
});
const numbers = (description: string): TaskOption => ({
  ...{ type: 'array', items: { type: 'number' }, default: [] },
  description,
});
const OUTPUT: TaskOption = {
  type: 'string',
  default: '',
  description: 'Name of the output. Blank: found by the worker',
};
const SCORES = choice(
  'Function that makes scores from 0 to 1. auto: none if the model ends with one',
  ...(['auto', 'softmax', 'sigmoid', 'none'] as const),
);
const { 'image-classification': CLASSIFIES, 'object-detection': FINDS, 'image-feature-extraction': EMBEDS } = TASKS;

export const TAKES: Readonly<Record<Takes, PresetOptions>> = {
  tensors: {},
  picture: {
    resize: choice(
      'How a picture gets the size that the model takes: each side by itself, whole with bars, or its middle',
      ...(['stretch', 'letterbox', 'crop'] as const),
    ),
    size: {
      ...{ type: 'string', default: '', pattern: '^(\\d{1,5}([x×]\\d{1,5})?)?$' },
      description: 'Width x height in pixels, or one number for both. Blank: as the model says',
    },
    values: choice(
      'Range of the numbers: 0 to 1, -1 to 1, the bytes themselves, or the mean and deviation of ImageNet or CLIP',
      ...(['unit', 'signed', 'bytes', 'imagenet', 'clip'] as const),
    ),
    mean: numbers('Replaces values, together with std: subtracted from red, green and blue, which are 0 to 1'),
    std: numbers('Divides red, green and blue after that'),
    colours: choice('Order of the colours', 'rgb', 'bgr'),
    layout: choice('Order of the dimensions. auto: as the model says', 'auto', 'nchw', 'nhwc'),
    resample: choice(
      'Filter for another size. auto: that of OpenCV with bars, else bilinear as in Pillow',
      ...(['auto', 'bilinear', 'bicubic', 'lanczos', 'opencv'] as const),
    ),
    bars: { type: 'integer', minimum: 0, maximum: 255, default: 114, description: 'The grey of the bars' },
    cropShare: {
      ...{ type: 'number', minimum: 0.1, maximum: 1, default: 1 },
      description: 'Share of the shorter side that a crop keeps: 0.875 for 224 pixels of 256',
    },
    maxMegapixels: MAX_MEGAPIXELS,
  },
};

export const GIVES: Readonly<Record<Gives, GivesPreset>> = {
  tensors: { ofRequest: {}, ofStage: {}, result: {} },
  classes: {
    ofRequest: { ...CLASSIFIES.options, threshold: share('Least score of an entry', 0) },
    ofStage: { scores: SCORES, output: OUTPUT },
    result: CLASSIFIES.result,
  },
  boxes: {
    ofRequest: {
      threshold: share('Least score of an object', 0.25),
      iou: share(
        'Largest overlap of two boxes with one label, as a share; the one with the lower score is left out',
        0.7,
      ),
      topK: { ...(CLASSIFIES.options['topK'] as TaskOption), default: 300 },
    },
    ofStage: {
      boxes: choice(
        'Form of the outputs: YOLO without or with NMS inside, YOLOv5, or DETR. auto: found by their shapes',
        ...(['auto', 'yolo', 'yoloNms', 'yolo5', 'detr'] as const),
      ),
      scores: SCORES,
    },
    result: FINDS.result,
  },
  embedding: {
    ofRequest: {
      pooling: { ...(EMBEDS.options['pooling'] as TaskOption), enum: ['mean', 'cls'], default: 'mean' },
      normalize: EMBEDS.options['normalize'] as TaskOption,
    },
    ofStage: { output: OUTPUT },
    result: EMBEDS.result,
  },
};

/** Names of the presets' settings in `init`. */
const NAMES: Readonly<Record<string, readonly string[]>> = { takes: TAKES_NAMES, gives: GIVES_NAMES };

function optionsOf(takes: Takes, gives: Gives): PresetOptions {
  return { ...TAKES[takes], ...GIVES[gives].ofStage, ...GIVES[gives].ofRequest };
}

/**
 * Splits the `init` of an ONNX stage into its presets, with the defaults of their options, and all else.
 * @throws ModeletError `config_invalid`
 */
export function parsePresets(init: object): { readonly presets: OnnxPresets; readonly others: object } {
  const { takes = 'tensors', gives = 'tensors', ...rest } = init as Readonly<Record<string, unknown>>;
  for (const [name, value] of Object.entries({ takes, gives })) {
    const choices = NAMES[name] as readonly unknown[];
    if (!choices.includes(value)) throw invalid(`init: "${name}" must be ${choices.join(', ')}`);
  }
  const options = optionsOf(takes as Takes, gives as Gives);
  const [own, others] = [true, false].map((isOwn) =>
    Object.fromEntries(Object.entries(rest).filter(([name]) => Object.hasOwn(options, name) === isOwn)),
  ) as [object, object];
  const check = ownCheck(`${takes} and ${gives}`, () => ({ type: 'object', properties: options }));
  const [problem] = check(own, false) ?? [];
  if (problem) throw invalid(`init${problem.path}: ${problem.message}`);
  const values: Readonly<Record<string, unknown>> = { ...defaultsOf(options), ...own };
  const [mean, std] = ['mean', 'std'].map((name) => (values[name] as readonly number[] | undefined) ?? []) as [
    readonly number[],
    readonly number[],
  ];
  if (mean.length !== std.length || ![0, 1, 3].includes(mean.length) || std.includes(0))
    throw invalid('init: "mean" and "std" must have three numbers each, or one, and "std" no 0');
  return { presets: { takes: takes as Takes, gives: gives as Gives, values }, others };
}

/** Returns all names that `init` may have for presets, for a message about another. */
export function presetNames({ takes, gives }: OnnxPresets): readonly string[] {
  return [...Object.keys(NAMES), ...Object.keys(optionsOf(takes, gives))];
}

/** PresetOptions that the dialog of a stage leaves to `init`. */
const RARE: readonly string[] = ['resample', 'bars', 'cropShare', 'maxMegapixels', 'output'];

/** The presets by their setting and name, with the options that the dialog of a stage shows; the build writes them there. */
export const DIALOG_PRESETS: Readonly<Record<string, Readonly<Record<string, object>>>> = {
  takes: Object.fromEntries(TAKES_NAMES.map((name) => [name, shownOptions(often(TAKES[name]))])),
  gives: Object.fromEntries(
    GIVES_NAMES.map((name) => [name, shownOptions(often({ ...GIVES[name].ofStage, ...GIVES[name].ofRequest }))]),
  ),
};

function often(options: PresetOptions): PresetOptions {
  return Object.fromEntries(Object.entries(options).filter(([name]) => !RARE.includes(name)));
}
