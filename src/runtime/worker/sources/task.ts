/** Makes a modelet from a known model: a folder with a model and its processor or tokenizer, and the task that it does. */
import { lookIntoFolder } from '../../../config/tasks/model-folder.ts';
import { RequestOptions } from '../../../config/tasks/task-options.ts';
import { TASKS } from '../../../config/tasks/tasks.ts';
import { systemClock } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import type { BatchWarning } from '../../../core/model.ts';
import { proveBatch, singly } from '../batch/proof.ts';
import { type LoadSource, modelLoader, NO_STATICS, type RequestMeta } from '../modelet/modelet.ts';
import { threadsFor } from '../onnx/runtime.ts';
import { TaskCalls } from '../tasks/calls.ts';
import { examplesFor } from '../tasks/examples.ts';
import { generate } from '../tasks/generate.ts';
import { inputReader, inputSchemaOf, type PreparedInput, type Prompt, type ReadInput } from '../tasks/inputs.ts';
import { loadLibrary, openPipeline, type TaskSource } from '../tasks/library.ts';

const open: LoadSource<TaskSource> = async (stage, { requireFrom }, { cpus, log }) => {
  const source = withWeights(stage);
  const { task, limits, soleWorker } = source;
  const threads = threadsFor(limits.threads, cpus, soleWorker);
  const libraries = await loadLibrary(requireFrom, threads);
  if (libraries.instead !== null) log.warn(libraries.instead);
  const pipeline = await openPipeline(libraries.library, source, threads);
  const read = inputReader(source, libraries, pipeline);
  const calls = new TaskCalls(
    task,
    libraries.library,
    pipeline,
    new RequestOptions(TASKS[task].options, source.options),
  );
  const examples = await examplesFor(source);
  log.info(`${task} by a model of the type ${String(pipeline.model.config['model_type'])}, ${source.precision}`);
  const common = {
    ...NO_STATICS,
    examples,
    instead: libraries.instead,
    documented: { inputSchema: inputSchemaOf(task), outputSchema: TASKS[task].result },
    preparesAtOnce: true,
    setup: () => {},
    preprocess: read,
    teardown: () => pipeline.dispose(),
  };
  if (TASKS[task].form === 'words') {
    return {
      ...common,
      batch: false,
      predict: (input, meta, { signal }) => {
        const { value, own } = input as PreparedInput;
        const options = calls.optionsOf(own, meta as RequestMeta);
        return generate(libraries.library, pipeline, value as Prompt, options, signal);
      },
    };
  }
  const run = (inputs: readonly PreparedInput[], metas: readonly RequestMeta[]): Promise<unknown[]> =>
    calls.run(inputs, metas);
  return {
    ...common,
    batch: true,
    runs: () => calls.count,
    batching: await batchingOf(source, examples, read, run),
    predict: (inputs, metas) => run(inputs as PreparedInput[], metas as RequestMeta[]),
  };
};

export const loadTask: LoadSource<TaskSource> = modelLoader(open, ({ limits }) => limits.device === 'cpu');

/** Finds the weights of a model from a hub. @throws Error for users: the model is not there, or not all of it */
function withWeights(source: TaskSource): TaskSource {
  const { hub, folder, task, precision } = source;
  if (hub === undefined) return source;
  try {
    return { ...source, ...lookIntoFolder(folder, task, precision) };
  } catch (cause) {
    throw new Error(
      `not downloaded: ${hub}: press Download in the dialog of the stage, or start "modelet serve" with --install (${asError(cause).message})`,
      { cause },
    );
  }
}

/** Tries whether a batch answers as single calls do: padding, and quantised weights, may let inputs change each other. */
async function batchingOf(
  { task, limits }: TaskSource,
  examples: readonly unknown[],
  read: ReadInput,
  run: (inputs: readonly PreparedInput[], metas: readonly RequestMeta[]) => Promise<readonly unknown[]>,
): Promise<BatchWarning | null> {
  if (!TASKS[task].together || limits.batch !== null) {
    return limits.batch === false ? singly('the stage is set so') : null;
  }
  const inputs = await Promise.all(examples.map(async (example) => read(example))).catch(() => []);
  // A detector is sure of nothing in most of them.
  const rows = TASKS[task].form === 'boxes' ? inputs.map((input) => ({ ...input, own: { threshold: 0 } })) : inputs;
  const proof = await proveBatch(rows, {
    clock: systemClock,
    run: (tried) => run(tried, []),
    enlarged: () => [],
  });
  return proof.tag === 'differs' ? singly(proof.why) : null;
}
