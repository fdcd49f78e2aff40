/**
 * Loads known models with @huggingface/transformers. This package does not include it: the user installs it. Nothing here
 * reaches a network: a model comes from its folder.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { StageSource } from '../../../config/stage-source.ts';
import { asError } from '../../../core/errors.ts';
import { loadFirst, replaceNative, runSettings } from '../onnx/runtime.ts';

const PACKAGE = '@huggingface/transformers';
/** The decoder of pictures, which comes with it, or alone. */
const SHARP = 'sharp';
/** The first version whose pipelines do what this folder expects. */
const LEAST = '4.3';

export type TaskSource = Extract<StageSource, { kind: 'task' }>;

/** A picture as the library takes it. */
export interface RawImage {
  readonly width: number;
  readonly height: number;
}

/** A picture of the library with its pixels. */
export interface PixelImage extends RawImage, ResizesImage {
  readonly data: ArrayLike<number>;
  readonly channels: number;
}

export type RawImageClass = new (
  data: Uint8ClampedArray,
  width: number,
  height: number,
  channels: number,
) => PixelImage;

interface ResizesImage {
  /** A processor calls it, with a side of the new picture or both. */
  resize(
    width: number | null,
    height: number | null,
    options?: { readonly resample?: number | string },
  ): Promise<PixelImage>;
  center_crop(width: number, height: number): Promise<PixelImage>;
}

/** An array of numbers of the library. */
export interface LibraryTensor {
  readonly dims: readonly number[];
  readonly data: ArrayLike<number>;
}

export interface Tokenizer {
  apply_chat_template(messages: readonly unknown[], options: object): string;
}

/** A task with its model, loaded. */
export interface TaskPipeline {
  (...given: readonly unknown[]): Promise<unknown>;
  readonly tokenizer?: Tokenizer;
  readonly model: { readonly config: Readonly<Record<string, unknown>> };
  readonly processor?: {
    readonly feature_extractor?: { readonly config: { readonly sampling_rate?: number } };
    readonly image_processor?: ImageProcessor;
  };
  dispose(): Promise<void>;
}

/** What the library makes of pictures before a model runs; its words are those of the file of a processor. */
export interface ImageProcessor {
  readonly config: {
    readonly image_processor_type?: unknown;
    readonly feature_extractor_type?: unknown;
    /** In older files, the longest edge stands here, and the shortest alone is the size. */
    readonly max_size?: number;
  };
  readonly do_crop_margin?: boolean;
  readonly do_resize: boolean;
  readonly do_thumbnail?: boolean;
  readonly do_center_crop?: boolean;
  readonly crop_size?: number | { readonly width: number; readonly height: number };
  readonly do_rescale: boolean;
  readonly rescale_factor: number;
  readonly do_normalize?: boolean;
  /** One for each colour, or one for all. */
  readonly image_mean?: unknown;
  readonly image_std?: unknown;
  readonly do_pad?: boolean;
  readonly pad_size?: unknown;
  readonly size_divisibility?: number;
  readonly do_flip_channel_order: boolean;
  get_resize_output_image_size(image: RawImage, size: unknown): readonly [width: number, height: number];
  preprocess(image: RawImage): Promise<unknown>;
  resize(image: PixelImage): Promise<PixelImage>;
  pad_image: unknown;
  /** Makes one tensor of the pictures. */
  _call(images: unknown, ...more: unknown[]): Promise<unknown>;
}

/** The parts of a pipeline that finds objects. */
export interface Detector {
  readonly model: {
    (inputs: object): Promise<Readonly<Record<string, LibraryTensor>>>;
    readonly config: Readonly<Record<string, unknown>>;
  };
  readonly processor: {
    (
      images: readonly RawImage[],
    ): Promise<{ readonly pixel_values: LibraryTensor; readonly pixel_mask?: LibraryTensor }>;
    readonly image_processor: {
      /** @param sizes height and width of each picture */
      post_process_object_detection(
        output: unknown,
        threshold: number,
        sizes: readonly (readonly [number, number])[],
      ): readonly {
        readonly boxes: readonly Iterable<number>[];
        readonly classes: readonly number[];
        readonly scores: readonly number[];
      }[];
    };
  };
}

export interface Streamer {
  readonly callback_function: (text: string) => void;
}

/** The part of the library that this folder uses. */
export interface Library {
  readonly env: Record<string, unknown> & { readonly version: string };
  readonly pipeline: (task: string, model: string, options: object) => Promise<TaskPipeline>;
  readonly RawImage: RawImageClass;
  readonly ImageProcessor: { readonly prototype: ImageProcessor };
  readonly Tensor: new (type: string, data: BigInt64Array | Float32Array, dims: readonly number[]) => LibraryTensor;
  readonly cat: (tensors: readonly LibraryTensor[], dim: number) => LibraryTensor;
  readonly TextStreamer: new (tokenizer: unknown, options: object) => Streamer;
  readonly InterruptableStoppingCriteria: new () => { interrupt(): void };
  readonly ModelRegistry: {
    get_pipeline_files(task: string, model: string, options: object): Promise<readonly string[]>;
  };
}

/** A picture that sharp decodes. */
export interface Sharp {
  metadata(): Promise<{ readonly width?: number; readonly height?: number }>;
  rotate(): Sharp;
  toColourspace(name: string): Sharp;
  resize(width: number, height: number, options: { readonly fit: 'fill'; readonly kernel: string }): Sharp;
  raw(): Sharp;
  toBuffer(options: { readonly resolveWithObject: true }): Promise<{
    readonly data: Buffer;
    readonly info: { readonly width: number; readonly height: number; readonly channels: number };
  }>;
}

export type OpenSharp = (bytes: Uint8Array | Uint8ClampedArray, options: object) => Sharp;

/** The library, and the decoder of pictures that it brings along. */
export interface Libraries {
  readonly library: Library;
  readonly sharp: OpenSharp;
  /** Why models run as WebAssembly; null: they do not. */
  readonly instead: string | null;
  /** Imports a package that lies beside them; null: it is not installed. */
  readonly optional: (name: string) => Promise<object | null>;
}

/**
 * @param requireFrom folder with the user's modules
 * @param threads of a run
 * @throws Error for users: it is missing, too old, or does not load
 */
export async function loadLibrary(requireFrom: string, threads: number): Promise<Libraries> {
  const found = find(requireFrom, PACKAGE);
  if (!found) {
    throw new Error(
      `${PACKAGE} is not installed: press the button that installs it in the dialog of the stage, or run "npm install ${PACKAGE} --ignore-scripts" in ${requireFrom}, then restart the stage's workers`,
    );
  }
  try {
    const instead = replaceNative(found, threads);
    const library = (await import(pathToFileURL(found).href)) as Library;
    const { version } = library.env;
    if (version.localeCompare(LEAST, 'en', { numeric: true }) < 0)
      throw new Error(`version ${version} is too old: ${LEAST} or newer is needed`);
    const refuse = (url: unknown): never => {
      throw new Error(`the model asks for ${String(url)}, and known models are read from their folder only`);
    };
    Object.assign(library.env, { allowRemoteModels: false, useFSCache: false, useWasmCache: false, fetch: refuse });
    // Its warnings go to the output of the worker.
    library.env['logLevel'] = 40;
    const sharp = createRequire(found)(SHARP) as OpenSharp;
    const optional = async (name: string): Promise<object | null> => {
      const file = find(requireFrom, name);
      return file ? import(pathToFileURL(file).href) : null;
    };
    return { library, sharp, instead, optional };
  } catch (cause) {
    throw new Error(`${PACKAGE} is installed but does not load: ${asError(cause).message}`, { cause });
  }
}

/**
 * Loads the decoder of pictures alone: it is installed by itself, or beside the library.
 * @throws Error for users
 */
export function loadSharp(requireFrom: string): OpenSharp {
  const places = [join(requireFrom, 'package.json'), import.meta.url, find(requireFrom, PACKAGE)];
  const found = loadFirst(
    places.filter((place) => place !== null),
    SHARP,
  );
  if (found.tag === 'loaded') return found.module as OpenSharp;
  if (found.tag === 'broken')
    throw new Error(`sharp is installed but does not load: ${found.cause.message}`, { cause: found.cause });
  throw new Error(
    `sharp, which reads pictures, is not installed: press the button that installs it in the dialog of the stage, or run "npm install sharp --ignore-scripts" in ${requireFrom}, then restart the stage's workers`,
  );
}

/** Returns the entry of a package for `import`, or null. If this package is linked from elsewhere, it may lie beside it there. */
function find(requireFrom: string, name: string): string | null {
  for (const from of [join(requireFrom, 'package.json'), import.meta.url]) {
    for (const modules of createRequire(from).resolve.paths(name) ?? []) {
      const folder = join(modules, name);
      if (!existsSync(join(folder, 'package.json'))) continue;
      const { exports, main } = createRequire(from)(join(folder, 'package.json')) as Readonly<Record<string, unknown>>;
      const entry = entryOf(exports) ?? (typeof main === 'string' ? main : null);
      if (entry !== null) return join(folder, entry);
    }
  }
  return null;
}

/** Follows the conditions of an import in Node.js. */
function entryOf(exports: unknown): string | null {
  if (typeof exports === 'string') return exports;
  if (exports === null || typeof exports !== 'object') return null;
  const conditions = exports as Readonly<Record<string, unknown>>;
  for (const name of ['.', 'node', 'import', 'default']) {
    const entry = entryOf(conditions[name]);
    if (entry !== null) return entry;
  }
  return null;
}

/**
 * @param threads of a run
 * @throws Error that names the files which the folder lacks, or why the library cannot load them
 */
export async function openPipeline(
  { pipeline, ModelRegistry }: Library,
  { task, folder, subfolder, precision: dtype, limits: { device } }: TaskSource,
  threads: number,
): Promise<TaskPipeline> {
  const session_options = runSettings(threads);
  try {
    return await pipeline(task, folder, { dtype, device, subfolder, session_options, local_files_only: true });
  } catch (cause) {
    const files =
      subfolder === '' ? [] : await ModelRegistry.get_pipeline_files(task, folder, { dtype, device }).catch(() => []);
    const missing = files.filter((name) => !existsSync(join(folder, name)));
    if (missing.length > 0) throw new Error(`the folder ${folder} lacks ${missing.join(', ')}`, { cause });
    throw new Error(`the model in ${folder} cannot be used for ${task}: ${asError(cause).message}`, { cause });
  }
}
