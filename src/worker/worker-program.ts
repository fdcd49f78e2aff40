/** What a worker does, be it a process or a thread: loads one modelet, serves batches one after the other, ends. */
import { inspect } from 'node:util';
import { type Deadline, systemClock } from '../core/clock.ts';
import type { LogLevel, RequestNumber } from '../core/model.ts';
import { type Reports, report } from '../lifecycle/entry.ts';
import { shortened } from '../lifecycle/lines.ts';
import { type Frame, HEAD, type ItemFrame, LONGEST_FRAME, type WorkerBoot } from '../wire/frames.ts';
import { type LoadedModelet, type ModeletContext, runBatch } from './modelet.ts';
import { loadFile } from './sources/file.ts';
import { loadInline } from './sources/inline.ts';
import { UsageReporter } from './usage.ts';

type BatchFrame = Extract<ItemFrame, { type: 'batch' }>;

interface Serving {
  readonly modelet: LoadedModelet;
  readonly boot: WorkerBoot;
  readonly waiting: BatchFrame[];
  readonly cancelled: Set<RequestNumber>;
  running: Promise<void> | null;
  readonly usage: UsageReporter;
}

export class WorkerProgram {
  readonly #channel: Reports;
  #serving: Serving | null = null;

  constructor(channel: Reports) {
    this.#channel = channel;
  }

  /**
   * Resolves when what the frame asks for is done; after a `close` it does not come back.
   * @throws whatever keeps the modelet from loading, and for frames that are not for a worker.
   */
  async receive(frame: Frame): Promise<void> {
    switch (frame.type) {
      case 'load':
        return this.#load(frame.body);
      case 'batch':
        return this.#accept(frame);
      case 'cancel':
        for (const id of frame.body) this.#serving?.cancelled.add(id);
        return;
      case 'close':
        return this.#close(frame.body.deadline);
      default:
        throw new Error(`a worker does not take ${frame.type} frames`);
    }
  }

  async #load(boot: WorkerBoot): Promise<void> {
    const context = this.#contextOf(boot);
    const { source } = boot.modelet;
    const modelet =
      source.kind === 'inline'
        ? await loadInline(source, boot.modelet, context)
        : await loadFile(source, boot.modelet, context);
    await modelet.setup();
    const usage = new UsageReporter(systemClock, (body) => this.#channel.send({ type: 'usage', body }));
    this.#serving = { modelet, boot, waiting: [], cancelled: new Set(), running: null, usage };
    report(this.#channel, { state: 'ready' });
    usage.note();
  }

  #accept(frame: BatchFrame): Promise<void> {
    const serving = this.#serving;
    if (!serving) throw new Error('a batch came before the modelet was loaded');
    serving.waiting.push(frame);
    serving.running ??= this.#serve(serving);
    return serving.running;
  }

  /** Serves until nothing waits. The reply is on its way before the next batch begins: what waits here has not started. */
  async #serve(serving: Serving): Promise<void> {
    // What arrived together with a batch may be its cancellation.
    await null;
    for (let frame = serving.waiting.shift(); frame; frame = serving.waiting.shift()) {
      const startedAt = systemClock.now();
      const items = await runBatch(serving.modelet, frame.items, {
        clock: systemClock,
        stage: serving.boot.stage,
        maxPayloadBytes: serving.boot.maxPayloadBytes,
        maxReplyBytes: LONGEST_FRAME - HEAD,
        isCancelled: (id) => serving.cancelled.has(id),
      });
      this.#channel.send({ type: 'reply', batch: frame.batch, runMs: systemClock.now() - startedAt, items });
      serving.usage.note();
      await this.#channel.flushed();
      if (serving.waiting.length === 0) serving.cancelled.clear();
    }
    serving.running = null;
  }

  async #close(deadline: Deadline): Promise<void> {
    report(this.#channel, { state: 'shutdown' });
    // The parent kills at the deadline; what is left of the time belongs to the batches in hand and to teardown.
    systemClock.at(deadline, () => process.exit(1));
    await this.#serving?.running;
    try {
      await this.#serving?.modelet.teardown();
    } catch (thrown) {
      console.error(thrown);
    }
    await this.#channel.flushed();
    process.exit(0);
  }

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
    };
  }
}
