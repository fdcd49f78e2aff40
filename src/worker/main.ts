/** Entry of a worker process: loads one modelet and serves batches, one after the other. Started by URL. */
import { inspect } from 'node:util';
import { type Deadline, systemClock } from '../core/clock.ts';
import type { LogLevel, RequestNumber } from '../core/model.ts';
import { endWithError, report, runChild } from '../lifecycle/entry.ts';
import type { Channel } from '../wire/channel.ts';
import type { Frame, ItemFrame, WorkerBoot } from '../wire/frames.ts';
import { type LoadedModelet, type ModeletContext, runBatch } from './modelet.ts';
import { loadFile } from './sources/file.ts';
import { loadInline } from './sources/inline.ts';

type BatchFrame = Extract<ItemFrame, { type: 'batch' }>;

interface Serving {
  readonly modelet: LoadedModelet;
  readonly boot: WorkerBoot;
  readonly waiting: BatchFrame[];
  readonly cancelled: Set<RequestNumber>;
  running: Promise<void> | null;
}

let serving: Serving | null = null;

runChild({ onFrame: receive, onExit: () => {} });

function receive(frame: Frame, channel: Channel): void {
  switch (frame.type) {
    case 'load':
      load(frame.body, channel).catch((thrown: unknown) => endWithError(channel, thrown));
      break;
    case 'batch':
      if (!serving) throw new Error('a batch came before the modelet was loaded');
      serving.waiting.push(frame);
      serving.running ??= serve(serving, channel);
      break;
    case 'cancel':
      for (const id of frame.body) serving?.cancelled.add(id);
      break;
    case 'close':
      void close(frame.body.deadline, channel);
      break;
    default:
      throw new Error(`a worker does not take ${frame.type} frames`);
  }
}

async function load(boot: WorkerBoot, channel: Channel): Promise<void> {
  const context = contextOf(boot, channel);
  const { source } = boot.modelet;
  const modelet =
    source.kind === 'inline'
      ? await loadInline(source, boot.modelet, context)
      : await loadFile(source, boot.modelet, context);
  await modelet.setup();
  serving = { modelet, boot, waiting: [], cancelled: new Set(), running: null };
  report(channel, { state: 'ready' });
}

/** Serves until nothing waits. The reply is on its way before the next batch begins: what waits here has not started. */
async function serve(state: Serving, channel: Channel): Promise<void> {
  // What arrived together with a batch may be its cancellation.
  await null;
  for (let frame = state.waiting.shift(); frame; frame = state.waiting.shift()) {
    const startedAt = systemClock.now();
    const items = await runBatch(state.modelet, frame.items, {
      clock: systemClock,
      stage: state.boot.stage,
      maxPayloadBytes: state.boot.maxPayloadBytes,
      isCancelled: (id) => state.cancelled.has(id),
    });
    channel.send({ type: 'reply', batch: frame.batch, runMs: systemClock.now() - startedAt, items });
    await channel.flushed();
    if (state.waiting.length === 0) state.cancelled.clear();
  }
  state.running = null;
}

async function close(deadline: Deadline, channel: Channel): Promise<void> {
  report(channel, { state: 'shutdown' });
  // The parent kills at the deadline; what is left of the time belongs to the batches in hand and to teardown.
  systemClock.at(deadline, () => process.exit(1));
  await serving?.running;
  try {
    await serving?.modelet.teardown();
  } catch (thrown) {
    console.error(thrown);
  }
  await channel.flushed();
  process.exit(0);
}

function contextOf(boot: WorkerBoot, channel: Channel): ModeletContext {
  const log = (level: LogLevel) => (message: unknown) =>
    channel.send({
      type: 'log',
      body: { level, message: typeof message === 'string' ? message : inspect(message) },
    });
  return {
    stage: boot.stage,
    worker: boot.worker,
    cpus: boot.cpus,
    log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
  };
}
