/** Parses the options in the `init` of an ONNX stage. */
import { isFields } from '../core/objects.ts';
import type { OnnxOptions } from './stage-source.ts';
import { parsePresets, presetNames } from './tasks/presets.ts';
import { invalid } from './validate.ts';

type Check = readonly [isValid: (value: unknown) => boolean, what: string];

const isScalar = (value: unknown): boolean => ['number', 'string', 'boolean'].includes(typeof value);
const isText = (value: unknown): boolean => typeof value === 'string' && value.trim() !== '';
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every((entry) => typeof entry === 'string');
const isNamed = (value: unknown): boolean => isText((value as { name?: unknown } | null)?.name);
const isFillings = (value: unknown): boolean =>
  isFields(value) && Object.keys(value).length > 0 && Object.values(value).every(isScalar);
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';

const CHECKS: Readonly<Record<Exclude<keyof OnnxOptions, 'presets'>, Check>> = {
  executionProviders: [
    (value) => Array.isArray(value) && value.length > 0 && value.every((entry) => isText(entry) || isNamed(entry)),
    'an array of names, or of objects with a name',
  ],
  threads: [(value) => Number.isInteger(value) && (value as number) >= 1, 'a whole number from 1'],
  labels: [(value) => isText(value) || isTexts(value), 'an array of texts, or the path of a JSON file with one'],
  softmax: [isBoolean, 'true or false'],
  tensors: [isBoolean, 'true or false'],
  batch: [isBoolean, 'true or false'],
  pad: [isFillings, 'an object from names of inputs to the values that fill them up'],
  examples: [Array.isArray, 'an array of inputs'],
};

const DEFAULTS: Omit<OnnxOptions, 'presets'> = {
  executionProviders: ['cpu'],
  threads: null,
  labels: null,
  softmax: false,
  tensors: false,
  batch: null,
  pad: null,
  examples: [],
};

/**
 * Checks the options and adds the defaults.
 * @throws ModeletError `config_invalid`, also for an unknown option: a mistyped name must not be ignored.
 */
export function parseOnnxOptions(init: unknown): OnnxOptions {
  if (!isFields(init)) throw invalid('init: must be an object');
  const { presets, others } = parsePresets(init);
  for (const [name, value] of Object.entries(others)) {
    const check = Object.hasOwn(CHECKS, name) ? CHECKS[name as keyof typeof CHECKS] : null;
    if (!check) {
      const known = [...Object.keys(CHECKS), ...presetNames(presets)].join(', ');
      throw invalid(`init: an ONNX stage has no "${name}"; there are ${known}`);
    }
    if (!check[0](value)) throw invalid(`init: "${name}" must be ${check[1]}`);
  }
  const options: OnnxOptions = { ...DEFAULTS, ...others, presets };
  if (options.tensors && (options.labels !== null || options.softmax)) {
    throw invalid('init: "tensors" gives the outputs as they are, without "labels" and "softmax"');
  }
  if (presets.gives !== 'tensors' && (options.tensors || options.softmax))
    throw invalid(`init: "tensors" and "softmax" have no effect where the model gives ${presets.gives}`);
  return options;
}
