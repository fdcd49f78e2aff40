/**
 * Measures the runs of a stage in short-lived workers: first in a single worker with batches of 1, 2, 4 ... items, then in
 * several at the same time. No engine takes part. All items are the same input: an example, or an input of the caller.
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
} as const;

export interface MeasureSpec {
  readonly stage: string;
  readonly modelet: ModeletDefinition;
  /** null: the modelet's own example. */
  readonly input: Payload | null;
  /** Largest batch, in items. */
  readonly maxBatchSize: number;
  /** Most workers that run at the same time. */
  readonly maxWorkers: number;
}

/** What a worker is waited for; it has one thing to do at a time. */
interface Awaited {
  resolve(frame: Frame | null): void;
  reject(error: Error): void;
}

class MeasuredWorker {
  readonly #spec: MeasureSpec;
  readonly #clock: Clock;
  readonly #child: Child;
  #input: Payload | null;
  #awaited: Awaited | null = null;
  #batch = 0;
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
    const { stage, modelet, maxBatchSize: batchSize } = spec;
    this.#child = startAlone(
      { stage, modelet, worker: index, heapMb: modelet.heapMb, batchSize, maxPayloadBytes: MEASURE.resultBytes },
      { onState: (state) => this.#entered(state), onFrame: (frame) => this.#receive(frame), onOutput: () => {} },
      machine,
      clock,
    );
    this.ready = this.#wait(modelet.startTimeoutMs || MEASURE.startMs, 'is not ready');
  }

  /** Runs a batch. Returns its time in ms, with the way to the worker and back. */
  async run(items: number): Promise<number> {
    const input = this.#input;
    if (input === null) throw this.#failed('the modelet has no example: give an input');
    this.#batch += 1;
    const begunAt = this.#clock.now();
    const reply = this.#wait(MEASURE.runMs, `has not run a batch of ${items}`);
    this.#child.send({
      type: 'batch',
      batch: this.#batch,
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

  #wait(limitMs: number, what: string): Promise<Frame | null> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.at(this.#clock.now() + limitMs, () =>
        this.#fail(this.#failed(`the worker ${what} within ${limitMs} ms`)),
      );
      const settled = (settle: () => void): void => {
        timer.cancel();
        this.#awaited = null;
        settle();
      };
      this.#awaited = {
        resolve: (frame) => settled(() => resolve(frame)),
        reject: (error) => settled(() => reject(error)),
      };
    });
  }

  #entered(state: ProcessState): void {
    if (state.tag === 'ready') this.#awaited?.resolve(null);
    else if (state.tag === 'error') this.#fail(this.#failed(`does not start: ${state.error.message}`));
    else if (state.tag === 'dead') {
      this.#fail(this.#failed(`the worker died: ${state.error.message}`));
      this.#gone();
    }
  }

  #receive(frame: Frame): void {
    if (frame.type === 'loaded') this.#learn(exampleOf(frame.body.description));
    else if (frame.type === 'reply') this.#awaited?.resolve(frame);
  }

  #learn(example: string | null): void {
    if (this.#input !== null || example === null) return;
    try {
      this.#input = encodeInput(JSON.parse(example));
    } catch (thrown) {
      this.#fail(asError(thrown));
    }
  }

  #fail(error: Error): void {
    this.#awaited?.reject(error);
  }

  #failed(message: string): ModeletError {
    return new ModeletError('stage_unavailable', message, { stage: this.#spec.stage });
  }
}

/**
 * Measures a stage. Resolves when all its processes are gone.
 * @throws ModeletError that says why the stage cannot be measured
 */
export async function measureStage(
  spec: MeasureSpec,
  machine: Machine,
  clock: Clock = systemClock,
): Promise<StageRuns> {
  const workers: MeasuredWorker[] = [];
  const start = async (): Promise<MeasuredWorker> => {
    const worker = new MeasuredWorker(spec, workers.length, machine, clock);
    workers.push(worker);
    await worker.ready;
    return worker;
  };
  try {
    const first = await start();
    const runs: MeasuredRun[] = [];
    for (const items of sizesUpTo(spec.maxBatchSize)) {
      const times = await timesOf(first, items, clock);
      runs.push(...times.map((ms) => ({ items, ms })));
      if (mean(times) > MEASURE.longMs) break;
    }
    const usual = runs.at(-1)?.items ?? 1;
    const alone = mean(runs.filter(({ items }) => items === usual).map(({ ms }) => ms));
    const slowdowns = [1];
    while (slowdowns.length < spec.maxWorkers) {
      await start();
      const times = await Promise.all(workers.map((worker) => timesOf(worker, usual, clock)));
      slowdowns.push(Math.max(1, mean(times.flat()) / alone));
    }
    return { runs, slowdowns };
  } finally {
    await Promise.all(workers.map((worker) => worker.close()));
  }
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
