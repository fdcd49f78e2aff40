/**
 * Finds the runtime of ONNX models: onnxruntime-node, else onnxruntime-web, whose WebAssembly also runs where no native
 * build does, with musl or on 32-bit ARM, and is slower. This package includes neither: the user installs them.
 */
import Module, { createRequire } from 'node:module';
import { join } from 'node:path';
import { asError } from '../../../core/errors.ts';
import { usableThreads } from '../../../process/container-limits.ts';
import { whyNoNativeBuild } from '../../../process/native-builds.ts';
import type { SessionTensor } from './elements.ts';
import type { SessionMetadata } from './ports.ts';

const NATIVE = 'onnxruntime-node';
const WEB = 'onnxruntime-web';

/** The part of both packages that this folder uses. */
export interface OnnxRuntime {
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => SessionTensor;
}

interface Session extends SessionMetadata {
  run(feeds: Record<string, SessionTensor>, fetches: readonly string[]): Promise<Record<string, SessionTensor>>;
  release(): Promise<void>;
}

interface WebRuntime extends OnnxRuntime {
  readonly env: { readonly wasm: { numThreads?: number; wasmPaths?: object }; logLevel?: string };
}

export interface FoundRuntime {
  readonly runtime: OnnxRuntime;
  /** Why it is WebAssembly; null: it is native. */
  readonly instead: string | null;
}

type LoadingOutcome =
  | { readonly tag: 'absent' }
  | { readonly tag: 'loaded'; readonly module: object }
  | { readonly tag: 'broken'; readonly cause: Error };

/**
 * @param requireFrom folder with the user's modules
 * @param threads of one run
 * @throws Error for users: neither is there, or loads
 */
export function loadRuntime(requireFrom: string, threads: number): FoundRuntime {
  // If this package is linked from another folder, the runtime may be installed beside it there.
  const places = [join(requireFrom, 'package.json'), import.meta.url];
  const native = loadFirst(places, NATIVE);
  if (native.tag === 'loaded') return { runtime: native.module as OnnxRuntime, instead: null };
  const web = loadFirst(places, WEB);
  if (web.tag === 'loaded') return { runtime: prepared(web.module, threads), instead: insteadOf(native) };
  const unsuited = whyNoNativeBuild();
  const wanted = unsuited === null ? NATIVE : WEB;
  // The advice skips the install script, which would only download files for graphics cards from another server.
  const advice = `run "npm install ${wanted} --ignore-scripts" in ${requireFrom}, then restart the stage's workers`;
  if (native.tag === 'absent') throw new Error(`${wanted} is not installed: ${advice}`);
  const broken = `${NATIVE} is installed but does not load: ${native.cause.message}`;
  throw new Error(unsuited === null ? broken : `${broken}. ${unsuited}: ${advice}`, { cause: native.cause });
}

/**
 * Puts onnxruntime-web in the place of onnxruntime-node, which the library of known models requires, if that does not load.
 * @param library its file
 * @returns why; null if the native one loads
 * @throws Error with the reason why neither loads
 */
export function replaceNative(library: string, threads: number): string | null {
  const native = attempt(createRequire(library), NATIVE);
  if (native.tag !== 'broken') return null;
  const require = createRequire(library);
  const web = attempt(require, WEB);
  if (web.tag !== 'loaded') throw native.cause;
  const file = require.resolve(NATIVE);
  require.cache[file] = Object.assign(new Module(file), { exports: prepared(web.module, threads), loaded: true });
  return insteadOf(native);
}

/** @param wanted threads by the stage's options; null: one for each core that no other worker of the stage uses */
export function threadsFor(wanted: number | null, cpus: readonly number[] | null, soleWorker: boolean): number {
  return wanted ?? (cpus ? usableThreads(cpus.length) : soleWorker ? usableThreads() : 1);
}

/** Returns the settings of a session. */
export function runSettings(threads: number): object {
  return {
    // Always set: by default the runtime would bind its threads to cores that this process may not use.
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // Only fatal messages: the runtime also throws its errors.
    logSeverityLevel: 4,
  };
}

/** Loads a package from the first place where it is installed and loads. */
export function loadFirst(places: readonly string[], name: string): LoadingOutcome {
  let found: LoadingOutcome = { tag: 'absent' };
  for (const place of places) {
    const outcome = attempt(createRequire(place), name);
    if (outcome.tag === 'loaded') return outcome;
    if (found.tag === 'absent') found = outcome;
  }
  return found;
}

function attempt(require: NodeJS.Require, name: string): LoadingOutcome {
  try {
    require.resolve(name);
  } catch {
    return { tag: 'absent' };
  }
  try {
    return { tag: 'loaded', module: require(name) as object };
  } catch (thrown) {
    return { tag: 'broken', cause: asError(thrown) };
  }
}

function prepared(module: object, threads: number): WebRuntime {
  const runtime = module as WebRuntime;
  runtime.env.wasm.numThreads = threads;
  // Otherwise the library of known models would fetch its files from a server.
  runtime.env.wasm.wasmPaths ??= {};
  runtime.env.logLevel = 'fatal';
  return runtime;
}

function insteadOf(native: LoadingOutcome): string {
  const why =
    native.tag === 'broken'
      ? `${NATIVE} does not load: ${native.cause.message.split('\n')[0]}`
      : `${NATIVE} is not installed`;
  return `runs as WebAssembly, which is several times slower: ${whyNoNativeBuild() ?? why}`;
}
