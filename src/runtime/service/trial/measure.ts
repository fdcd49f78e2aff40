/**
 * Measures the runs of a stage in short-lived workers: first one at a time in a single worker with batches of 1, 2, 4 ...
 * items, then `concurrency` of them at a time in each of several workers. No engine takes part. All items are the same
 * input: an example, or an input of the caller.
 */
import type { ModeletDefinition } from '../../../config/stage-definition.ts';
import { type Clock, systemClock } from '../../../core/clock.ts';
import { asError, ModeletError } from '../../../core/errors.ts';
import type { Payload } from '../../../core/model.ts';
import type { MeasuredRun, StageRuns } from '../../../core/queues/sizing.ts';
import type { Child, ProcessState } from '../../../process/parent/child.ts';
import { decodeModeletError } from '../../../wire/codec/error-codec.ts';
import type { Frame } from '../../../wire/frames/frames.ts';
import { bareItem } from '../../../wire/frames/items.ts';
import type { Machine } from '../runtime-pins.ts';
import { exampleOf } from './example.ts';
import { encodeInput, startAlone } from './trial.ts';

const MEASURE = {
  /** Time for the runs of one size, in ms, and how many they are: at least, and at most. */
  sizeMs: 250,
  leastRuns: 5,
  mostRuns: 40,
  /** Larger sizes are left out if a run takes longer, in ms. */
  longMs: 2000,
  startMs: 120_000,
  runMs: 30_000,
  stopMs: 2000,
  resultBytes: 64 * 1024 * 1024,
  /** Larger batches are left out, in bytes of the inputs that a worker has at the same time. */
  batchBytes: 64 * 1024 * 1024,
  /** A worker that prints more lines than this is killed: reading them takes time in this process. */
  printed: 100_000,
  /** Largest batch without a given one. */
  batchSize: 32,
  /** More workers than this are measured only if the stage has them, or a caller gives a number. */
  workers: 4,
} as const;

export interface MeasureSpec {
  readonly stage: string;
  readonly modelet: ModeletDefinition;
  /** null: the modelet's own example. */
  readonly input: Payload | null;
  /** Largest batch, in items; null: 32. */
  readonly maxBatchSize: number | null;
  /** Most workers that run at the same time; null: those of the stage, and at least one per core up to 4. */
  readonly maxWorkers: number | null;
}

/** The part of a measurement that begins. */
export interface MeasureProgress {
  /** Its number, from 1, and the number of all. */
  readonly step: number;
  readonly of: number;
  /** Size of the batches, and number of the workers. */
  readonly items: number;
  readonly workers: number;
}

export interface Measuring {
  /** Aborts when the result is no longer wanted, with the error to fail with: all workers are then killed. */
  readonly gone?: AbortSignal;
  onProgress?(progress: MeasureProgress): void;
}

/** A batch in a worker, or its start. */
interface Awaited {
  resolve(frame: Frame | null): void;
  reject(error: Error): void;
}

class MeasuredWorker {
  readonly #spec: MeasureSpec;
  readonly #clock: Clock;
  readonly #child: Child;
  #input: Payload | null;
  /** By the number of the batch; that of the start is 0. */
  readonly #awaited = new Map<number, Awaited>();
  /** Why it cannot be used any more. */
  #failure: Error | null = null;
  #batch = 0;
  #printed = 0;
  #gone: () => void = () => {};
  readonly #end: Promise<void>;
  /** Settles when it is ready. */
  readonly ready: Promise<unknown>;

  constructor(spec: MeasureSpec, index: number, machine: Machine, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
    this.#input = spec.input;
    this.#end = new Promise((resolve) => {
      this.#gone = resolve;
    });
    const { stage, modelet } = spec;
    const batchSize = spec.maxBatchSize ?? MEASURE.batchSize;
    this.#child = startAlone(
      { stage, modelet, worker: index, heapMb: modelet.heapMb, batchSize, maxPayloadBytes: MEASURE.resultBytes },
      {
        onState: (state) => this.#entered(state),
        onFrame: (frame) => this.#receive(frame),
        onOutput: () => this.#print(),
      },
      machine,
      clock,
    );
    this.ready = this.#wait(0, modelet.startTimeoutMs || MEASURE.startMs, 'is not ready');
  }

  /** Bytes of the inputs of single-item runs that the worker has at the same time, once it is ready. */
  get inputBytes(): number {
    return (this.#input?.bytes.byteLength ?? 0) * this.#spec.modelet.concurrency;
  }

  /** Runs a batch. Returns its time in ms, with the way to the worker and back. */
  async run(items: number): Promise<number> {
    if (this.#failure) throw this.#failure;
    const input = this.#input;
    if (input === null) throw this.#failed('the modelet has no example: give an input');
    this.#batch += 1;
    const batch = this.#batch;
    const begunAt = this.#clock.now();
    const reply = this.#wait(batch, MEASURE.runMs, `has not run a batch of ${items}`);
    this.#child.send({
      type: 'batch',
      batch,
      items: Array.from({ length: items }, (_, index) => ({
        ...bareItem(index + 1, input),
        deadline: Number.POSITIVE_INFINITY,
      })),
    });
    const frame = await reply;
    const ms = this.#clock.now() - begunAt;
    const failed = frame?.type === 'reply' ? frame.items.find(({ ok }) => !ok) : undefined;
    if (failed) throw decodeModeletError(failed.payload.bytes, 'protocol_error');
    return ms;
  }

  /** Ends the worker. Resolves when its process is gone. */
  close(): Promise<void> {
    this.#child.close(this.#clock.now() + MEASURE.stopMs);
    return this.#end;
  }

  kill(error: Error): void {
    this.#fail(error);
    this.#child.kill(error);
  }

  async #wait(batch: number, limitMs: number, what: string): Promise<Frame | null> {
    const timer = this.#clock.at(this.#clock.now() + limitMs, () =>
      this.#fail(this.#failed(`the worker ${what} within ${limitMs} ms`)),
    );
    try {
      return await new Promise<Frame | null>((resolve, reject) => {
        this.#awaited.set(batch, { resolve, reject });
      });
    } finally {
      timer.cancel();
      this.#awaited.delete(batch);
    }
  }

  #entered(state: ProcessState): void {
    if (state.tag === 'ready') this.#awaited.get(0)?.resolve(null);
    else if (state.tag === 'error') this.kill(this.#failed(`does not start: ${state.error.message}`));
    else if (state.tag === 'dead') {
      this.#fail(this.#failed(`the worker died: ${state.error.message}`));
      this.#gone();
    }
  }

  #receive(frame: Frame): void {
    if (frame.type === 'log') this.#print();
    else if (frame.type === 'loaded') this.#learn(exampleOf(frame.body.description));
    else if (frame.type === 'reply') this.#awaited.get(frame.batch)?.resolve(frame);
  }

  #learn(example: string | null): void {
    if (this.#input !== null || example === null) return;
    try {
      this.#input = encodeInput(JSON.parse(example));
    } catch (thrown) {
      this.#fail(asError(thrown));
    }
  }

  #print(): void {
    this.#printed += 1;
    if (this.#printed === MEASURE.printed) this.kill(this.#failed(`the worker printed ${MEASURE.printed} lines`));
  }

  /** The first failure counts. */
  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#awaited.values()) reject(this.#failure);
  }

  #failed(message: string): ModeletError {
    return new ModeletError('stage_unavailable', message, { stage: this.#spec.stage });
  }
}

/**
 * Measures a stage. Resolves when all its processes are gone.
 * @throws ModeletError that says why the stage cannot be measured, or the reason of `gone`
 */
export async function measureStage(
  spec: MeasureSpec,
  machine: Machine,
  { gone, onProgress }: Measuring = {},
  clock: Clock = systemClock,
): Promise<StageRuns> {
  const workers: MeasuredWorker[] = [];
  const { concurrency } = spec.modelet;
  const maxWorkers =
    spec.maxWorkers ?? Math.max(spec.modelet.workers.length, Math.min(machine.allowedCpus.length, MEASURE.workers));
  const sizes = sizesUpTo(spec.maxBatchSize ?? MEASURE.batchSize);
  const tell = (step: number, items: number): void =>
    onProgress?.({ step, of: sizes.length + maxWorkers - 1, items, workers: Math.max(1, step - sizes.length + 1) });
  const start = async (): Promise<MeasuredWorker> => {
    gone?.throwIfAborted();
    const worker = new MeasuredWorker(spec, workers.length, machine, clock);
    workers.push(worker);
    await worker.ready;
    return worker;
  };
  const leave = (): void => {
    for (const worker of workers) worker.kill(gone?.reason as Error);
  };
  gone?.addEventListener('abort', leave, { once: true });
  try {
    tell(1, 1);
    const first = await start();
    const runs = await runsAlone(first, sizes, clock, tell);
    const usual = runs.at(-1)?.items ?? 1;
    const alone = mean(runs.filter(({ items }) => items === usual).map(({ ms }) => ms));
    const slowdowns = concurrency === 1 ? [1] : [];
    while (slowdowns.length < maxWorkers) {
      tell(sizes.length + slowdowns.length, usual);
      if (slowdowns.length > 0) await start();
      const places = workers.flatMap((worker) => Array<MeasuredWorker>(concurrency).fill(worker));
      const times = await Promise.all(places.map((worker) => timesOf(worker, usual, clock)));
      slowdowns.push(Math.max(1, mean(times.flat()) / alone));
    }
    return { runs, concurrency, slowdowns };
  } finally {
    gone?.removeEventListener('abort', leave);
    await Promise.all(workers.map((worker) => worker.close()));
  }
}

/** Measures runs one at a time, at each size that is not too large. */
async function runsAlone(
  worker: MeasuredWorker,
  sizes: readonly number[],
  clock: Clock,
  begin: (step: number, items: number) => void,
): Promise<MeasuredRun[]> {
  const runs: MeasuredRun[] = [];
  for (const [at, items] of sizes.entries()) {
    if (at > 0 && items * worker.inputBytes > MEASURE.batchBytes) break;
    if (at > 0) begin(at + 1, items);
    const times = await timesOf(worker, items, clock);
    runs.push(...times.map((ms) => ({ items, ms })));
    if (mean(times) > MEASURE.longMs) break;
  }
  return runs;
}

/** Times of some runs. The first one of a size warms the code up, and does not count. */
async function timesOf(worker: MeasuredWorker, items: number, clock: Clock): Promise<number[]> {
  await worker.run(items);
  const times: number[] = [];
  const until = clock.now() + MEASURE.sizeMs;
  while (times.length < MEASURE.leastRuns || (times.length < MEASURE.mostRuns && clock.now() < until)) {
    times.push(await worker.run(items));
  }
  return times;
}

function sizesUpTo(most: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size < most; size *= 2) sizes.push(size);
  return [...sizes, most];
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
}
