/** Runs a worker, in a process or a thread: loads one modelet, serves batches, and ends. */
import { inspect } from 'node:util';
import { payloadChecks } from '../../config/payload-checks.ts';
import { type Deadline, systemClock } from '../../core/clock.ts';
import type { LogLevel, RequestNumber, WorkerUsage } from '../../core/model.ts';
import { UsageReporter } from '../../observe/meters/usage.ts';
import { type Reports, report } from '../../process/child/entry.ts';
import { shortened } from '../../process/lines.ts';
import { TouchedFiles } from '../../process/touched-files.ts';
import type { StateReport, WorkerBoot } from '../../wire/frames/bodies.ts';
import {
  type ControlFrame,
  type Frame,
  HEAD,
  type ItemFrame,
  keepCancelled,
  LONGEST_FRAME,
} from '../../wire/frames/frames.ts';
import { SNAPSHOTS_ROOM } from '../../wire/frames/key-snapshots.ts';
import { proven, tryExample, warmUp } from './batch/examples.ts';
import { runBatch } from './batch/run-batch.ts';
import { PartsOut } from './batch/stream.ts';
import { BatchCalls, Places } from './calls.ts';
import { KeyStates } from './key-states.ts';
import { describeModelet } from './modelet/describe.ts';
import type { LoadedModelet, ModeletContext } from './modelet/modelet.ts';
import { OwnMetrics } from './modelet/own-metrics.ts';
import { loadSource } from './sources/load.ts';

type BatchFrame = Extract<ItemFrame, { type: 'batch' }>;
type TryFrame = Extract<ControlFrame, { type: 'try' }>;

interface Serving {
  readonly modelet: LoadedModelet;
  readonly run: Parameters<typeof tryExample>[3];
  readonly places: Places<BatchFrame | TryFrame>;
  /** Cancelled requests of batches that are not finished. */
  readonly cancelled: Set<RequestNumber>;
  /** The calls of the batches that run. */
  readonly calls: Set<BatchCalls>;
  readonly usage: UsageReporter;
  /** Null: the stage has no keys. */
  readonly keys: KeyStates | null;
}

/** Longest text of progress, in characters. */
const LONGEST_PROGRESS = 200;

function progressText(done: unknown): string {
  const text = typeof done === 'number' ? `${Math.round(done * 100)} %` : String(done);
  return text.slice(0, LONGEST_PROGRESS);
}

function keyStates(definition: WorkerBoot['modelet'], modelet: LoadedModelet, context: ModeletContext): KeyStates {
  const { keyIdleMs, stateKb, keySnapshotMb } = definition;
  return new KeyStates({
    ...{ clock: systemClock, keyIdleMs, stateKb, keySnapshotMb },
    onEnd: (key, state) => modelet.onKeyEnd?.(key, state, context),
    onError: (thrown) => console.error(thrown),
  });
}

export class WorkerProgram {
  readonly #channel: Reports;
  readonly #parts: PartsOut;
  readonly #metrics: OwnMetrics = new OwnMetrics(() => this.#serving?.usage.note());
  readonly #touched: TouchedFiles = new TouchedFiles();
  #serving: Serving | null = null;
  /** Whether the modelet's code is loading or failed to load. False once `setup` begins. */
  #isLoading = false;

  constructor(channel: Reports) {
    this.#channel = channel;
    this.#parts = new PartsOut((part) => channel.send({ type: 'parts', items: [part] }));
  }

  /** Returns what an error that ends the worker is reported with. */
  failed(thrown: unknown): Pick<StateReport, 'loading' | 'files'> {
    this.#touched.end();
    this.#touched.missed(thrown);
    return { loading: this.#isLoading, files: this.#touched.all };
  }

  /**
   * Handles a frame and resolves when its work is done. Never resolves after a `close`, because the process exits.
   * @throws any error that keeps the modelet from loading, and an Error for a frame that a worker does not take.
   */
  async receive(frame: Frame): Promise<void> {
    switch (frame.type) {
      case 'load':
        return this.#load(frame.body);
      case 'batch':
      case 'try':
        return this.#accept(frame);
      case 'cancel':
        return this.#cancel(frame.body);
      case 'taken':
        for (const [id, parts] of frame.body) this.#parts.taken(id, parts);
        return;
      case 'close':
        return this.#close(frame.body.deadline);
      default:
        throw new Error(`a worker does not take ${frame.type} frames`);
    }
  }

  async #load(boot: WorkerBoot): Promise<void> {
    const context = this.#contextOf(boot);
    this.#isLoading = true;
    this.#touched.begin();
    const loaded = await loadSource(boot.modelet, context);
    const { concurrency } = boot.modelet;
    const run: Serving['run'] = {
      context,
      overlaps: concurrency > 1,
      clock: systemClock,
      stage: boot.stage,
      maxPayloadBytes: boot.maxPayloadBytes,
      maxReplyBytes: LONGEST_FRAME - HEAD - (boot.modelet.keySnapshotMb > 0 ? SNAPSHOTS_ROOM : 0),
      emitsLists: boot.modelet.emits === 'list',
      checks: payloadChecks(boot.modelet, loaded),
      hasKeys: boot.modelet.keyBy !== '',
    };
    this.#isLoading = false;
    await loaded.setup();
    const modelet = await this.#metrics.quietly(async () => {
      const tried = await proven(loaded, boot.batchSize, run);
      await warmUp(tried, boot.batchSize, run);
      return tried;
    });
    this.#touched.end();
    const usage = new UsageReporter(systemClock, (usage) => this.#report(usage));
    const places = new Places<BatchFrame | TryFrame>(concurrency, {
      announce: (frame) => this.#announce(frame),
      run: (frame) => this.#serve(serving, frame),
    });
    const cancelled = new Set<RequestNumber>();
    const keys = boot.modelet.keyBy === '' ? null : keyStates(boot.modelet, modelet, context);
    const serving: Serving = { modelet, run, places, cancelled, calls: new Set(), usage, keys };
    this.#serving = serving;
    const description = describeModelet(modelet, boot.modelet, context);
    this.#channel.send({
      type: 'loaded',
      body: { examples: modelet.examples.length, description, files: this.#touched.all },
    });
    report(this.#channel, { state: 'ready' });
    usage.note();
  }

  #cancel(ids: readonly RequestNumber[]): void {
    for (const id of ids) this.#serving?.cancelled.add(id);
    this.#parts.cancel(ids);
    for (const calls of this.#serving?.calls ?? []) calls.cancel(ids);
  }

  #accept(frame: BatchFrame | TryFrame): Promise<void> {
    const serving = this.#serving;
    if (!serving) throw new Error('a batch or an example came before the modelet was loaded');
    return serving.places.add(frame);
  }

  async #announce(frame: BatchFrame | TryFrame): Promise<void> {
    this.#channel.send({ type: 'began', body: { batch: frame.type === 'batch' ? frame.batch : null } });
    await this.#channel.flushed();
  }

  async #serve(serving: Serving, frame: BatchFrame | TryFrame): Promise<void> {
    if (frame.type === 'try') await this.#try(serving, frame.body);
    else await this.#run(serving, frame);
    serving.usage.note();
    await this.#channel.flushed();
    if (serving.cancelled.size > 0) {
      keepCancelled(
        serving.cancelled,
        serving.places.calls.filter((other) => other !== frame),
      );
    }
  }

  async #run(serving: Serving, { batch, items }: BatchFrame): Promise<void> {
    const { modelet, run, cancelled, keys } = serving;
    const startedAt = systemClock.now();
    const isCancelled = (id: RequestNumber): boolean => cancelled.has(id);
    const calls = new BatchCalls(run.context, isCancelled);
    serving.calls.add(calls);
    const held = keys?.begin(items) ?? null;
    const runsBefore = modelet.runs?.() ?? 0;
    let called = 0;
    const replies = await runBatch(modelet, items, {
      ...run,
      isCancelled,
      contextFor: (ids) => calls.contextFor(ids, held),
      parts: this.#parts,
      called: () => {
        called += 1;
      },
    });
    serving.calls.delete(calls);
    if (held) keys?.end(held, items, replies, run);
    const runs = modelet.runs ? modelet.runs() - runsBefore : called;
    this.#channel.send({ type: 'reply', batch, runMs: systemClock.now() - startedAt, runs, items: replies });
  }

  async #try({ modelet, run }: Serving, { example, deadline }: TryFrame['body']): Promise<void> {
    const failure = await this.#metrics.quietly(() => tryExample(modelet, example, deadline, run));
    const error = failure && Buffer.from(failure).toString('base64');
    this.#channel.send({ type: 'tried', body: { example, error } });
  }

  async #close(deadline: Deadline): Promise<void> {
    report(this.#channel, { state: 'shutdown' });
    // The parent kills at the deadline. The time until then is for the accepted batches and for teardown.
    systemClock.at(deadline, () => process.exit(1));
    await this.#serving?.places.empty();
    await this.#serving?.keys?.close();
    try {
      await this.#serving?.modelet.teardown();
    } catch (thrown) {
      console.error(thrown);
    }
    if (this.#metrics.haveChanged) this.#serving?.usage.report();
    await this.#channel.flushed();
    process.exit(0);
  }

  #report(usage: WorkerUsage): void {
    const own = this.#metrics.take();
    this.#channel.send({ type: 'usage', body: own ? { ...usage, own } : usage });
  }

  /** Returns the context of what runs for no request, such as `setup` and examples. */
  #contextOf(boot: WorkerBoot): ModeletContext {
    const log = (level: LogLevel) => (message: unknown) =>
      this.#channel.send({
        type: 'log',
        body: { level, message: shortened(typeof message === 'string' ? message : inspect(message)) },
      });
    return {
      stage: boot.stage,
      worker: boot.worker,
      cpus: boot.cpus,
      log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
      metrics: this.#metrics,
      progress: (done) => {
        if (!this.#serving) this.#channel.send({ type: 'progress', body: progressText(done) });
      },
      signal: new AbortController().signal,
    };
  }
}
