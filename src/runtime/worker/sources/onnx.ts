/** Makes a modelet from an ONNX model: turns items into tensors, stacks them into a batch, and splits the outputs. */
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { StageSource } from '../../../config/stage-source.ts';
import { systemClock } from '../../../core/clock.ts';
import { asError, ModeletError } from '../../../core/errors.ts';
import type { BatchWarning } from '../../../core/model.ts';
import { usableThreads } from '../../../process/cpu-quota.ts';
import { type LoadedModelet, type LoadSource, NO_STATICS } from '../modelet/modelet.ts';
import { documentedPorts } from '../onnx/documented.ts';
import { Padding } from '../onnx/padding.ts';
import { describePort, hasRows, type Stacking } from '../onnx/ports.ts';
import { type ItemParts, readItem } from '../onnx/read-item.ts';
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

const open: LoadSource<OnnxSource> = async (source, definition, { cpus, log }) => {
  const { path, options } = source;
  const results: ResultOptions = { ...options, labels: readLabels(source) };
  const session = await openSession(path, definition.requireFrom, {
    executionProviders: options.executionProviders,
    threads: options.threads ?? (cpus ? usableThreads(cpus.length) : source.soleWorker ? null : 1),
  });
  const { ports } = session;
  const wanted = { ports, padding: options.pad && new Padding(ports, options.pad), run: session.run };
  const { stacking, padding, warning, unpadded } = await findStacking(
    wanted,
    options.batch,
    options.examples,
    systemClock,
  );
  if (unpadded !== null) log.warn(unpadded);
  const rows = hasRows(ports, stacking);
  checkLabels(ports.outputs, rows, results);
  log.info(
    `inputs ${ports.inputs.map(describePort).join(', ')}; outputs ${ports.outputs.map(describePort).join(', ')}`,
  );
  return {
    ...NO_STATICS,
    examples: options.examples,
    documented: documentedPorts(ports, rows, results),
    inputs: ports.inputs,
    ...(options.tensors || !results.labels ? { outputs: ports.outputs } : {}),
    batching: batchingOf(stacking, warning),
    ...(takesRows(stacking, warning) ? { rows: true } : {}),
    batch: true,
    setup: () => {},
    preprocess: (input) => readItem(input, ports.inputs, stacking),
    predict: async (items) => {
      const outputs = await runItems(items as ItemParts[], { ports, stacking, padding, run: session.run });
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

/** To clients, a batch of a fixed size is one whole input. */
function takesRows(stacking: Stacking, warning: string | null): boolean {
  return stacking.tag === 'stacked' && stacking.size === null && warning === null;
}

function batchingOf({ tag }: Stacking, why: string | null): BatchWarning | null {
  if (why === null) return null;
  if (tag === 'single') return { items: 'singly', text: `items run one by one: ${why}` };
  return { items: 'mixed', text: `"batch": true runs items together, but ${why}` };
}
