/** Makes a modelet from an ONNX model: turns items into tensors, stacks them into a batch, and splits the outputs. */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { asError, ModeletError } from '../../core/errors.ts';
import type { StageSource } from '../../core/model.ts';
import { type LoadedModelet, type LoadSource, type ModeletContext, NO_STATICS } from '../modelet/modelet.ts';
import { documentedPorts } from '../onnx/documented.ts';
import { describePort, inputsOfItem, outputsOfItem, type Ports, type Stacking } from '../onnx/ports.ts';
import { itemForm, type Part, readItem } from '../onnx/read-item.ts';
import { checkLabels, type ResultOptions, toResult } from '../onnx/results.ts';
import { runItems } from '../onnx/run-items.ts';
import { openSession } from '../onnx/session.ts';
import { findStacking } from '../onnx/trial.ts';

type OnnxSource = Extract<StageSource, { kind: 'onnx' }>;

/** No user code runs here, so any failure comes from the model, its labels, or the missing runtime. */
export const loadOnnx: LoadSource<OnnxSource> = async (source, definition, context): Promise<LoadedModelet> => {
  try {
    return await open(source, definition, context);
  } catch (thrown) {
    // With another provider than the CPU a retry may succeed: a graphics card may have room for the model later.
    if (source.options.executionProviders.some((provider) => provider !== 'cpu')) throw thrown;
    throw new ModeletError('config_invalid', asError(thrown).message, { cause: thrown });
  }
};

const open: LoadSource<OnnxSource> = async (source, definition, context) => {
  const { path, options } = source;
  const results: ResultOptions = { ...options, labels: readLabels(source) };
  const session = await openSession(path, definition.requireFrom, {
    executionProviders: options.executionProviders,
    threads: options.threads ?? context.cpus?.length ?? (source.soleWorker ? null : 1),
  });
  const { ports } = session;
  const stacking = await findStacking(ports, session.run, options.batch, options.examples);
  checkLabels(ports.outputs, stacking.tag === 'stacked', results);
  tellOf(ports, stacking, context);
  return {
    ...NO_STATICS,
    examples: options.examples,
    documented: documentedPorts(ports, stacking.tag === 'stacked', results),
    inputs: inputsOfItem(ports, stacking),
    ...(options.tensors ? { outputs: outputsOfItem(ports, stacking) } : {}),
    batch: true,
    setup: () => {},
    preprocess: (input) => readItem(input, ports.inputs, itemForm(stacking)),
    predict: async (items) => {
      const outputs = await runItems(items as Part[][], ports, stacking, session.run);
      return outputs.map((one) => {
        if (one instanceof Error) return one;
        return attempt(() => toResult(one, ports.outputs, results));
      });
    },
    teardown: () => session.release(),
  };
};

function attempt(make: () => unknown): unknown {
  try {
    return make();
  } catch (thrown) {
    return thrown;
  }
}

function readLabels({ path, options }: OnnxSource): readonly string[] | null {
  const { labels } = options;
  if (labels === null || typeof labels !== 'string') return labels;
  const file = resolve(dirname(path), labels);
  try {
    const read: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (Array.isArray(read) && read.every((label) => typeof label === 'string')) return read;
  } catch (cause) {
    throw new Error(`labels: ${file}: ${(cause as Error).message}`, { cause });
  }
  throw new Error(`labels: ${file} must have a JSON array of texts`);
}

function tellOf({ inputs, outputs }: Ports, stacking: Stacking, { log }: ModeletContext): void {
  log.info(`inputs ${inputs.map(describePort).join(', ')}; outputs ${outputs.map(describePort).join(', ')}`);
  if (stacking.tag === 'stacked') return;
  log.info(`items run one by one, as ${stacking.why}; with "batch": true in init they would run together`);
}
