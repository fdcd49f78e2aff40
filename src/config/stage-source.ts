/** The sources of modelets as the settings of stages name them: code, a file, a package or a model. No behaviour. */
import type { CodeUse } from '../core/whole-messages.ts';

/** A variable of inline code, and the module that it stands for: the name in an `import`, without a version. */
export interface ModuleBinding {
  readonly var: string;
  readonly module: string;
}

export type StageSource =
  | ({
      readonly kind: 'inline';
      readonly setup: string;
      readonly code: string;
      readonly teardown: string;
      readonly libs: readonly ModuleBinding[];
    } & CodeUse)
  | { readonly kind: 'file'; readonly path: string }
  /** `module`: the name in an `import`, without a version. */
  | { readonly kind: 'module'; readonly module: string }
  /** `python`: the interpreter's path, or its name in PATH; blank: see process/python.ts. */
  | { readonly kind: 'python'; readonly path: string; readonly python: string }
  /** `requirements`: packages as pip takes them. */
  | {
      readonly kind: 'python-code';
      readonly setup: string;
      readonly code: string;
      readonly teardown: string;
      readonly requirements: readonly string[];
      readonly python: string;
    }
  | {
      readonly kind: 'onnx';
      readonly path: string;
      readonly options: OnnxOptions;
      /** Whether the stage has no other worker. Such a worker may use all cores unless it is pinned. */
      readonly soleWorker: boolean;
    }
  | {
      readonly kind: 'task';
      readonly task: TaskName;
      /** Absolute path of the model's folder, and the folder of the weights in it. */
      readonly folder: string;
      readonly subfolder: string;
      readonly precision: string;
      /** Its name on a hub, from which the folder may yet come: `subfolder` is not known, and `precision` may be `auto`. */
      readonly hub?: string;
      readonly options: Readonly<Record<string, unknown>>;
      readonly limits: TaskLimits;
      readonly soleWorker: boolean;
    };

/** Tasks of known models, by the names of hubs; see config/tasks/tasks.ts. */
export const TASK_NAMES = [
  ...(['image-classification', 'object-detection', 'zero-shot-image-classification'] as const),
  ...(['image-segmentation', 'depth-estimation', 'image-feature-extraction'] as const),
  ...(['text-classification', 'zero-shot-classification', 'token-classification', 'question-answering'] as const),
  ...(['feature-extraction', 'text-generation'] as const),
  ...(['automatic-speech-recognition', 'audio-classification'] as const),
] as const;

export type TaskName = (typeof TASK_NAMES)[number];

/** Settings of a stage with a known model that its requests cannot change. */
export interface TaskLimits extends Pick<OnnxOptions, 'threads' | 'batch' | 'examples'> {
  readonly device: string;
  readonly maxMegapixels: number;
  readonly maxSeconds: number;
}

/** An item of an ONNX stage is tensors, or a picture. */
export const TAKES_NAMES = ['tensors', 'picture'] as const;
export type Takes = (typeof TAKES_NAMES)[number];

/** The results that are made of the outputs of an ONNX model. */
export const GIVES_NAMES = ['tensors', 'classes', 'boxes', 'embedding'] as const;
export type Gives = (typeof GIVES_NAMES)[number];

export interface OnnxPresets {
  readonly takes: Takes;
  readonly gives: Gives;
  /** Their options by name, see config/tasks/presets.ts. */
  readonly values: Readonly<Record<string, unknown>>;
}

export interface OnnxOptions {
  readonly presets: OnnxPresets;
  /** Names, or objects with settings. Each operator runs on the first provider that supports it. */
  readonly executionProviders: readonly (string | { readonly name: string })[];
  /** Threads per run; null: one per pinned core, else all cores for a stage's only worker, else one. */
  readonly threads: number | null;
  /** Names of the classes, or the path of a JSON file that lists them, relative to the model. */
  readonly labels: readonly string[] | string | null;
  /** Whether scores are converted to probabilities. */
  readonly softmax: boolean;
  /** Whether outputs are `{data, dims, type}` instead of arrays. */
  readonly tensors: boolean;
  /** Whether the first dimension is the batch; null: as the model declares it. */
  readonly batch: boolean | null;
  /**
   * By the name of an input, the value that fills up its open dimensions, so that items of different lengths run
   * together; null: only items of the same shape do.
   */
  readonly pad: Readonly<Record<string, number | string | boolean>> | null;
  /** Valid inputs, see `Modelet.examples`. */
  readonly examples: readonly unknown[];
}
