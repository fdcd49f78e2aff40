/** Opens ONNX models with onnxruntime-node. This package does not include it: the user installs it. */
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import type { OnnxOptions } from '../../../config/stage-source.ts';
import { fromHalfBits, toHalfBits } from '../../../core/float16.ts';
import { usableThreads } from '../../../process/cpu-quota.ts';
import type { SessionTensor } from './elements.ts';
import { type Ports, portsOf, type SessionMetadata, whyNotLoaded } from './ports.ts';
import type { RunSession } from './run-items.ts';

const PACKAGE = 'onnxruntime-node';
/** A model whose values are in other files is smaller. */
const MOST_SEARCHED = 1 << 26;
/** Key of an entry with the name of such a file, and what comes before the length of the name. */
const LOCATION = Buffer.from('\x0a\x08location\x12');

/** The part of onnxruntime-node that this file uses. */
interface OnnxRuntime {
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => SessionTensor;
}

interface Session extends SessionMetadata {
  run(feeds: Record<string, SessionTensor>, fetches: readonly string[]): Promise<Record<string, SessionTensor>>;
  release(): Promise<void>;
}

export interface OnnxSession {
  readonly ports: Ports;
  readonly run: RunSession;
  release(): Promise<void>;
}

export interface SessionOptions extends Pick<OnnxOptions, 'executionProviders'> {
  /** Threads of one run; null: one per core, as far as a quota allows. */
  readonly threads: number | null;
}

/**
 * Opens the model at `path`. `requireFrom`: the folder with the user's modules.
 * @throws Error with a message for users: the package is missing, or the file is no model.
 */
export async function openSession(path: string, requireFrom: string, options: SessionOptions): Promise<OnnxSession> {
  const { InferenceSession, Tensor } = loadRuntime(requireFrom);
  const missing = dataFilesOf(path).filter((file) => !existsSync(file));
  const opened = InferenceSession.create(path, {
    executionProviders: options.executionProviders,
    // Always set: by default the runtime would bind its threads to cores that this process may not use.
    intraOpNumThreads: options.threads ?? usableThreads(),
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // Only fatal messages: the runtime also throws its errors.
    logSeverityLevel: 4,
  });
  const session = await opened.catch((cause: Error) => {
    const why = missing[0] ? `the file ${missing[0]} with values of the model is missing` : whyNotLoaded(cause.message);
    throw why === cause.message ? cause : new Error(why, { cause });
  });
  const ports = portsOf(session);
  const wanted = ports.outputs.map(({ name }) => name);
  return {
    ports,
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

function loadRuntime(requireFrom: string): OnnxRuntime {
  // If this package is linked from another folder, the runtime may be installed beside it there.
  for (const from of [join(requireFrom, 'package.json'), import.meta.url]) {
    const require = createRequire(from);
    try {
      require.resolve(PACKAGE);
    } catch {
      continue;
    }
    try {
      return require(PACKAGE) as OnnxRuntime;
    } catch (cause) {
      throw new Error(`${PACKAGE} is installed but does not load: ${(cause as Error).message}`, { cause });
    }
  }
  // The advice skips the install script, which would only download files for graphics cards from another server.
  throw new Error(
    `${PACKAGE} is not installed: run "npm install ${PACKAGE} --ignore-scripts" in ${requireFrom}, then restart the stage's workers`,
  );
}
