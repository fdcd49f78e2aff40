/** Runs batches through a modelet without a process around it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { parseOnnxOptions } from '../../src/config/onnx-options.ts';
import { ANYTHING } from '../../src/config/payload-checks.ts';
import type { ModeletDefinition } from '../../src/config/stage-definition.ts';
import type { TaskName } from '../../src/config/stage-source.ts';
import { lookIntoFolder } from '../../src/config/tasks/model-folder.ts';
import { parseTaskInit } from '../../src/config/tasks/task-options.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { type BatchRun, runBatch } from '../../src/runtime/worker/batch/run-batch.ts';
import { type LoadedModelet, type ModeletContext, NO_STATICS } from '../../src/runtime/worker/modelet/modelet.ts';
import { OwnMetrics } from '../../src/runtime/worker/modelet/own-metrics.ts';
import { loadOnnx } from '../../src/runtime/worker/sources/onnx.ts';
import { loadTask } from '../../src/runtime/worker/sources/task.ts';
import { decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { decodeError } from '../../src/wire/codec/error-codec.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../fixtures/known-models.ts';
import { type Drawing, writeModel } from '../fixtures/onnx.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { item } from '../wire/frame-values.ts';

export const MAX_BYTES: number = 1024 * 1024;

/** A modelet with the given parts; `predict` returns its input unless given. */
export function modelet(parts: Partial<LoadedModelet> = {}): LoadedModelet {
  return { ...NO_STATICS, batch: false, setup: () => {}, predict: (input) => input, teardown: () => {}, ...parts };
}

/** All that a loader is told of a stage, but for its source. */
export function definition<Given extends object>(given: Given): Given & Rest {
  return {
    init: {},
    predict: 'item',
    emits: 'one',
    inputSchema: null,
    outputSchema: null,
    requireFrom: '/',
    startTimeoutMs: 0,
    isolation: 'process',
    heapMb: 0,
    concurrency: 1,
    preload: false,
    keyBy: '',
    keyIdleMs: 600_000,
    stateKb: 64,
    keySnapshotMb: 0,
    ...given,
  };
}

type Rest = Omit<ModeletDefinition, 'workers' | 'source'>;

export function input(value: unknown, overrides: Partial<WireItem> = {}): WireItem {
  return item({ payload: encodePayload(value, { blame: 'invalid_input', maxBytes: MAX_BYTES }), ...overrides });
}

export function inputs(...values: unknown[]): WireItem[] {
  return values.map((value, index) => input(value, { id: index + 1 }));
}

/** One reply as a test reads it: the value, or code and message. */
export type Read = { readonly value: unknown } | { readonly code: string; readonly message: string };

export function errorOf(reply: WireItem | undefined): ModeletError {
  assert.ok(reply && !reply.ok, 'the reply is no error');
  const error = decodeError(reply.payload.bytes);
  assert.ok(error instanceof ModeletError, `${error.name} crossed instead of a ModeletError`);
  return error;
}

export function read(reply: WireItem): Read {
  if (reply.ok) return { value: decodePayload(reply.payload) };
  const { code, message } = errorOf(reply);
  return { code, message };
}

export function settings(overrides: Partial<BatchRun> = {}): BatchRun {
  return {
    clock: new FakeClock(),
    stage: 'digits',
    checks: ANYTHING,
    maxPayloadBytes: MAX_BYTES,
    maxReplyBytes: 4 * MAX_BYTES,
    emitsLists: false,
    isCancelled: () => false,
    contextFor: () => context(),
    overlaps: false,
    parts: null,
    ...overrides,
  };
}

/** Runs the items and checks what holds for every batch: one reply per item, in order. */
export async function run(
  of: LoadedModelet,
  items: readonly WireItem[],
  overrides?: Partial<BatchRun>,
): Promise<Read[]> {
  const replies = await runBatch(of, items, settings(overrides));
  assert.deepEqual(
    replies.map(({ id }) => id),
    items.map(({ id }) => id),
  );
  return replies.map(read);
}

export interface Logged {
  readonly level: string;
  readonly message: unknown;
}

export function context(logged: Logged[] = []): ModeletContext {
  const log = (level: string) => (message: unknown) => logged.push({ level, message });
  return {
    stage: 'digits',
    worker: 2,
    cpus: [3],
    log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
    metrics: new OwnMetrics(() => {}),
    progress: () => {},
    signal: new AbortController().signal,
  };
}

/** Loads ONNX models, which it writes into the folder, or which have a path. */
export function onnxLoader(
  folder: string,
): (drawing: Drawing | string, init?: object, logged?: Logged[]) => Promise<LoadedModelet> {
  let models = 0;
  return (drawing, init = {}, logged = []) => {
    models += 1;
    const path = typeof drawing === 'string' ? drawing : writeModel(folder, `model-${models}`, drawing);
    const source = { kind: 'onnx', path, options: parseOnnxOptions(init), soleWorker: false } as const;
    return loadOnnx(source, definition({ source, init, requireFrom: repositoryRoot }), context(logged));
  };
}

/** Loads the tiny model of a task, which it writes into the folder, with the task's options as `init`. */
export function taskLoader(
  folder: string,
): (task: TaskName, init?: object, model?: Partial<KnownModel>) => Promise<LoadedModelet> {
  let models = 0;
  return (task, init = {}, model = {}) => {
    models += 1;
    const path = writeKnownModel(join(folder, `${task}-${models}`), { ...(KNOWN[task] as KnownModel), ...model });
    const { path: found, ...weights } = lookIntoFolder(path, task, 'auto');
    const source = {
      kind: 'task',
      task,
      folder: found,
      ...weights,
      ...parseTaskInit(task, init),
      soleWorker: false,
    } as const;
    return loadTask(source, definition({ source, init, requireFrom: repositoryRoot }), context());
  };
}

/** Successful items, as a test reads them. */
export const values = (...read: unknown[]): Read[] => read.map((value) => ({ value }));
