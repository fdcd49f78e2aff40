/**
 * Reads the inputs and outputs of an ONNX model in a separate process, so that a large or broken model does no harm to
 * this one. Only one model is read at a time and few may wait, so that callers cannot fill the machine with processes.
 */
import { fileURLToPath } from 'node:url';
import { systemClock, type Timer } from '../../core/clock.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import type { ModelPort } from '../../core/tensor.ts';
import { runToEnd } from '../../process/parent/launch.ts';

const ENTRY = fileURLToPath(new URL('../worker/onnx/inspect.js', import.meta.url));
/** Time limit for waiting, and again for reading, in ms. */
const LONGEST_MS = 30_000;
const MOST_WAITING = 4;

export interface OnnxPorts {
  readonly inputs: readonly ModelPort[];
  readonly outputs: readonly ModelPort[];
  /** Whether items run one at a time, because the model does not declare its first dimension as the batch. */
  readonly single: boolean;
}

/** A model that waits or is being read. All callers that ask for the same path share its answer. */
interface Inspection {
  readonly path: string;
  readonly requireFrom: string;
  readonly answer: Promise<OnnxPorts>;
  readonly resolve: (ports: Promise<OnnxPorts>) => void;
  readonly reject: (error: Error) => void;
  /** Ends the wait with an error after `LONGEST_MS`. */
  readonly timer: Timer;
  /** Number of callers that still want the answer. */
  askers: number;
}

let present: Inspection | null = null;
const waiting: Set<Inspection> = new Set();

/**
 * Reads the inputs and outputs of the model at `path`.
 * @param requireFrom the folder with the user's modules
 * @param gone aborts when the caller no longer wants the answer
 * @throws ModeletError `capacity_exceeded` if too many models wait or this one waited longer than 30 s; Error with a
 * readable message if the package is missing, the file is not a model, or reading took longer than 30 s.
 */
export function inspectOnnx(path: string, requireFrom: string, gone: AbortSignal): Promise<OnnxPorts> {
  const known = [...(present ? [present] : []), ...waiting].find((other) => other.path === path);
  if (!known && waiting.size >= MOST_WAITING) return Promise.reject(busy());
  const inspection = known ?? queued(path, requireFrom);
  inspection.askers += 1;
  const leave = (): void => {
    inspection.askers -= 1;
    if (inspection.askers === 0 && waiting.has(inspection)) giveUp(inspection);
  };
  gone.addEventListener('abort', leave, { once: true });
  next();
  return inspection.answer;
}

function queued(path: string, requireFrom: string): Inspection {
  const { promise: answer, resolve, reject } = settleable();
  const timer = systemClock.at(systemClock.now() + LONGEST_MS, () => giveUp(inspection));
  const inspection: Inspection = { path, requireFrom, answer, resolve, reject, timer, askers: 0 };
  waiting.add(inspection);
  return inspection;
}

function settleable(): { promise: Promise<OnnxPorts>; resolve: Inspection['resolve']; reject: Inspection['reject'] } {
  let resolve: Inspection['resolve'] = () => {};
  let reject: Inspection['reject'] = () => {};
  const promise = new Promise<OnnxPorts>((resolver, rejecter) => {
    resolve = resolver;
    reject = rejecter;
  });
  return { promise, resolve, reject };
}

function giveUp(inspection: Inspection): void {
  waiting.delete(inspection);
  inspection.timer.cancel();
  inspection.reject(busy());
}

function next(): void {
  const [first] = waiting;
  if (present || !first) return;
  waiting.delete(first);
  first.timer.cancel();
  present = first;
  const reading = read(first).finally(() => {
    present = null;
    next();
  });
  first.resolve(reading);
}

async function read({ path, requireFrom }: Inspection): Promise<OnnxPorts> {
  const output = await runToEnd([process.execPath, ENTRY, path, requireFrom], LONGEST_MS).catch((thrown: unknown) => {
    const { killed } = thrown as { readonly killed?: boolean };
    const why = killed ? `took longer than ${LONGEST_MS / 1000} s` : `failed: ${asError(thrown).message}`;
    throw new Error(`reading the model ${why}`, { cause: thrown });
  });
  const answer = JSON.parse(output) as OnnxPorts | { readonly error: string };
  if ('error' in answer) throw new Error(answer.error);
  return answer;
}

function busy(): ModeletError {
  return new ModeletError('capacity_exceeded', 'Node-RED is reading other models; try again in a moment', {
    retryAfterSeconds: 1,
  });
}
