/** Opens ONNX models, see runtime.ts. */
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { OnnxOptions } from '../../../config/stage-source.ts';
import { fromHalfBits, toHalfBits } from '../../../core/float16.ts';
import type { SessionTensor } from './elements.ts';
import { type Ports, portsOf, whyNotLoaded } from './ports.ts';
import type { RunSession } from './run-items.ts';
import { loadRuntime, type OnnxRuntime, runSettings } from './runtime.ts';

/** A model whose values are in other files is smaller. */
const MOST_SEARCHED = 1 << 26;
/** Key of an entry with the name of such a file, and what comes before the length of the name. */
const LOCATION = Buffer.from('\x0a\x08location\x12');

export interface OnnxSession {
  readonly ports: Ports;
  readonly run: RunSession;
  /** Why it runs as WebAssembly; null: it does not. */
  readonly instead: string | null;
  release(): Promise<void>;
}

export interface SessionOptions extends Pick<OnnxOptions, 'executionProviders'> {
  /** Threads of one run. */
  readonly threads: number;
}

/**
 * Opens the model at `path`. `requireFrom`: the folder with the user's modules.
 * @throws Error with a message for users: the package is missing, or the file is no model.
 */
export async function openSession(
  path: string,
  requireFrom: string,
  { executionProviders, threads }: SessionOptions,
): Promise<OnnxSession> {
  const { runtime, instead } = loadRuntime(requireFrom, threads);
  const { InferenceSession, Tensor } = runtime;
  const files = dataFilesOf(path);
  const missing = files.filter((file) => !existsSync(file));
  const opened = InferenceSession.create(path, {
    executionProviders,
    ...runSettings(threads),
    ...(instead !== null && missing.length === 0 ? { externalData: files.map((file) => contentOf(file, path)) } : {}),
  });
  const session = await opened.catch((cause: Error) => {
    const why = missing[0] ? `the file ${missing[0]} with values of the model is missing` : whyNotLoaded(cause.message);
    // Only the native runtime names the file.
    throw why === cause.message && instead === null
      ? cause
      : new Error(instead === null ? why : `${path}: ${why}`, { cause });
  });
  const ports = portsOf(session);
  const wanted = ports.outputs.map(({ name }) => name);
  return {
    ports,
    instead,
    run: async (feeds) => {
      const tensors = Object.entries(feeds).map(([name, feed]) => [name, asFeed(feed, Tensor)]);
      const results = await session.run(Object.fromEntries(tensors), wanted);
      return ports.outputs.map(({ name }) => fromResult(results[name] as SessionTensor));
    },
    release: () => session.release(),
  };
}

/**
 * Returns the files beside the model that have values of its constants (TensorProto.external_data), by the bytes of
 * their entries. Looking for them also tells the engine to watch them.
 */
function dataFilesOf(path: string): string[] {
  const bytes = Buffer.alloc(Math.min(statSync(path).size, MOST_SEARCHED));
  const file = openSync(path, 'r');
  try {
    readSync(file, bytes);
  } finally {
    closeSync(file);
  }
  const found = new Set<string>();
  for (let at = bytes.indexOf(LOCATION); at >= 0; at = bytes.indexOf(LOCATION, at + 1)) {
    const start = at + LOCATION.length + 1;
    const name = bytes.toString('utf8', start, start + (bytes[start - 1] ?? 0));
    if (!name.includes('\0')) found.add(resolve(dirname(path), name));
  }
  return [...found];
}

/** WebAssembly reads no files. */
function contentOf(file: string, model: string): object {
  return { path: relative(dirname(model), file), data: readFileSync(file) };
}

/**
 * Returns the tensor in the form that the session takes. Half floats go without the runtime's Tensor: its native part
 * takes only their bits, but its Tensor converts them to a Float16Array if Node.js has that class.
 */
function asFeed({ type, data, dims }: SessionTensor, RuntimeTensor: OnnxRuntime['Tensor']): SessionTensor {
  if (type !== 'float16') return new RuntimeTensor(type, data, dims);
  const bits = { type, data: toHalfBits(data as Float32Array), dims, location: 'cpu' };
  return bits as SessionTensor;
}

function fromResult({ type, dims, data }: SessionTensor): SessionTensor {
  return { type, dims, data: type === 'float16' && data instanceof Uint16Array ? fromHalfBits(data) : data };
}
