/** Makes a modelet from an ONNX model: turns items into tensors, stacks them into a batch, and splits the outputs. */
import type { StageSource } from '../../../config/stage-source.ts';
import { GIVES } from '../../../config/tasks/presets.ts';
import { RequestOptions } from '../../../config/tasks/task-options.ts';
import { systemClock } from '../../../core/clock.ts';
import type { BatchWarning } from '../../../core/model.ts';
import { singly } from '../batch/proof.ts';
import { type LoadSource, modelLoader, NO_STATICS, type RequestMeta } from '../modelet/modelet.ts';
import { documentedItems, documentedPorts } from '../onnx/documented.ts';
import { Padding } from '../onnx/padding.ts';
import { describePort, hasRows, type Stacking } from '../onnx/ports.ts';
import { checkLabels, type ResultOptions, toResult } from '../onnx/results.ts';
import { runItems } from '../onnx/run-items.ts';
import { threadsFor } from '../onnx/runtime.ts';
import { openSession } from '../onnx/session.ts';
import { findStacking } from '../onnx/trial.ts';
import { answerMaker } from '../presets/answers.ts';
import { labelsOf, readLabels } from '../presets/labels.ts';
import { readModelFile } from '../presets/model-file.ts';
import { itemReader, type PresetItem } from '../presets/preset-items.ts';

type OnnxSource = Extract<StageSource, { kind: 'onnx' }>;

const open: LoadSource<OnnxSource> = async ({ path, options, soleWorker }, { requireFrom }, { cpus, log }) => {
  const { takes, gives, values } = options.presets;
  const session = await openSession(path, requireFrom, {
    executionProviders: options.executionProviders,
    threads: threadsFor(options.threads, cpus, soleWorker),
  });
  const { ports } = session;
  let runs = 0;
  const run: typeof session.run = (feeds) => {
    runs += 1;
    return session.run(feeds);
  };
  const file = readModelFile(path);
  const labels = readLabels(path, options.labels) ?? (gives === 'tensors' ? null : labelsOf(file));
  const results: ResultOptions = { ...options, labels };
  const answer = gives === 'tensors' ? null : answerMaker({ presets: options.presets, ports, labels, file });
  const reader = await itemReader(options, ports, file, requireFrom, log);
  const wanted = { ports, padding: options.pad && new Padding(ports, options.pad), run };
  const { stacking, padding, warning, unpadded } = await findStacking(
    wanted,
    options.batch,
    reader.readExamples,
    systemClock,
  );
  if (unpadded !== null) log.warn(unpadded);
  const rows = hasRows(ports, stacking);
  if (!answer) checkLabels(ports.outputs, rows, results);
  const requestOptions = new RequestOptions(GIVES[gives].ofRequest, values);
  if (session.instead !== null) log.warn(session.instead);
  log.info(
    `inputs ${ports.inputs.map(describePort).join(', ')}; outputs ${ports.outputs.map(describePort).join(', ')}`,
  );
  return {
    ...NO_STATICS,
    examples: reader.examples,
    documented: documentedItems(documentedPorts(ports, rows, results), options.presets),
    ...(takes === 'tensors' ? { inputs: ports.inputs } : {}),
    ...(!answer && (options.tensors || !results.labels) ? { outputs: ports.outputs } : {}),
    batching: batchingOf(stacking, warning),
    instead: session.instead,
    ...(takes === 'tensors' && !answer && takesRows(stacking, warning) ? { rows: true } : {}),
    batch: true,
    runs: () => runs,
    preparesAtOnce: true,
    setup: () => {},
    preprocess: (input) => reader.read(input, stacking),
    predict: async (given, metas) => {
      const items = given as PresetItem[];
      const outputs = await runItems(
        items.map(({ item }) => item),
        { ports, stacking, padding, run },
      );
      return outputs.map((one, at) => {
        if (one instanceof Error) return one;
        if (!answer) return attempt(() => toResult(one, ports.outputs, results));
        const { item, own } = items[at] as PresetItem;
        const ofMessage = (metas as RequestMeta[])[at]?.modelet?.options;
        return attempt(() => answer(one, item, requestOptions.of(own, ofMessage)));
      });
    },
    teardown: () => session.release(),
  };
};

export const loadOnnx: LoadSource<OnnxSource> = modelLoader(open, ({ options }) =>
  options.executionProviders.every((provider) => provider === 'cpu'),
);

function attempt(make: () => unknown): unknown {
  try {
    return make();
  } catch (thrown) {
    return thrown;
  }
}

/** To clients, a batch of a fixed size is one whole input. */
function takesRows(stacking: Stacking, warning: string | null): boolean {
  return stacking.tag === 'stacked' && stacking.size === null && warning === null;
}

function batchingOf({ tag }: Stacking, why: string | null): BatchWarning | null {
  if (why === null) return null;
  if (tag === 'single') return singly(why);
  return { items: 'mixed', text: `"batch": true runs items together, but ${why}` };
}
