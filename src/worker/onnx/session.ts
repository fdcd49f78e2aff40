/** The runtime of ONNX models, which is not part of this package: found where the user has installed it. */
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fromHalfBits, toHalfBits } from '../../core/float16.ts';
import type { OnnxOptions } from '../../core/model.ts';
import { type Ports, portsOf, type SessionMetadata } from './ports.ts';
import type { RunSession, Tensor } from './run-items.ts';

const PACKAGE = 'onnxruntime-node';

/** What is used of onnxruntime-node. */
interface OnnxRuntime {
  readonly InferenceSession: { create(path: string, options: object): Promise<Session> };
  readonly Tensor: new (type: string, data: unknown, dims: readonly number[]) => Tensor;
}

interface Session extends SessionMetadata {
  run(feeds: Record<string, Tensor>, fetches: readonly string[]): Promise<Record<string, Tensor>>;
  release(): Promise<void>;
}

export interface OnnxSession {
  readonly ports: Ports;
  readonly run: RunSession;
  release(): Promise<void>;
}

export interface SessionOptions extends Pick<OnnxOptions, 'executionProviders'> {
  /** Threads of one run; null: as many as there are cores. */
  readonly threads: number | null;
}

/**
 * `requireFrom`: the folder with the user's modules.
 * @throws Error, for people: the package is missing, or the file is no model.
 */
export async function openSession(path: string, requireFrom: string, options: SessionOptions): Promise<OnnxSession> {
  const { InferenceSession, Tensor } = loadRuntime(requireFrom);
  const session = await InferenceSession.create(path, {
    executionProviders: options.executionProviders,
    // Always a number: of itself it would bind its threads to cores that this process may not use.
    intraOpNumThreads: options.threads ?? availableParallelism(),
    interOpNumThreads: 1,
    executionMode: 'sequential',
    // Not what it throws as well.
    logSeverityLevel: 4,
  });
  const ports = portsOf(session);
  const wanted = ports.outputs.map(({ name }) => name);
  return {
    ports,
    run: async (feeds) => {
      const tensors = Object.entries(feeds).map(([name, feed]) => [name, asFeed(feed, Tensor)]);
      const results = await session.run(Object.fromEntries(tensors), wanted);
      return ports.outputs.map(({ name }) => fromResult(results[name] as Tensor));
    },
    release: () => session.release(),
  };
}

/**
 * Its native part takes half floats as their bits only, while its Tensor makes a Float16Array of them where Node.js has
 * that: so they go without a Tensor.
 */
function asFeed({ type, data, dims }: Tensor, RuntimeTensor: OnnxRuntime['Tensor']): Tensor {
  if (type !== 'float16') return new RuntimeTensor(type, data, dims);
  const bits = { type, data: toHalfBits(data as Float32Array), dims, location: 'cpu' };
  return bits as Tensor;
}

function fromResult({ type, dims, data }: Tensor): Tensor {
  return { type, dims, data: type === 'float16' && data instanceof Uint16Array ? fromHalfBits(data) : data };
}

function loadRuntime(requireFrom: string): OnnxRuntime {
  // Beside this package it is where that was installed with it, by a link elsewhere.
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
      throw new Error(`${PACKAGE} is installed and does not load: ${(cause as Error).message}`, { cause });
    }
  }
  // Without its script: what that would fetch, from elsewhere, is for graphics cards.
  throw new Error(
    `${PACKAGE} is not installed: run "npm install ${PACKAGE} --ignore-scripts" in ${requireFrom}, then restart the stage's workers`,
  );
}
